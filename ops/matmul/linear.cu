#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.cuh"
#include "ops/matmul/sum_rows.cuh"

namespace bellows {

// Views a matrix as a batch of one.
static Tensor batch_of(const Tensor& t) {
  return t.view({1, t.dim(0), t.dim(1)}, {0, t.strides()[0], t.strides()[1]}, t.offset());
}

static Tensor linear_cuda(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                          Slot&) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  matmul_cuda(batch_of(y), batch_of(x), batch_of(transposed(w)), Into::overwrite,
              {b, activation == Activation::relu});
  return y;
}

static void sum_rows_cuda(const Tensor& dy, const Tensor& db) {
  visit_stored(dy.dtype(), [&]<class T>(T) {
    sum_rows_into(RowSums<T>{db.ptr<T>(), dy.dim(1)}, dy.ptr<T>(), dy.dim(0), dy.dim(1));
  });
  db.raise_version();
}

static const bool gpu =
    kernels::linear.on(Device::cuda, linear_cuda) &&
    kernels::linear_backward_w.on(Device::cuda, kernels::multiply_and_sum_rows) &&
    kernels::sum_rows.on(Device::cuda, sum_rows_cuda);

}  // namespace bellows
