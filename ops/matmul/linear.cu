#include "core/tensor/copy.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.cuh"
#include "ops/reduce.h"

namespace bellows {

static Tensor linear_cuda(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                          Slot&) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  using kernels::batched;
  matmul_cuda(batched(y, 1), batched(x, 1), batched(transposed(w), 1), Into::overwrite,
              {b, activation == Activation::relu});
  return y;
}

static void sum_rows_cuda(const Tensor& dy, const Tensor& db) {
  copy_into(db, kernels::sum(dy, {1, dy.dim(1)}, 1).view_as(db.shape()));
}

static const bool gpu =
    kernels::linear.on(Device::cuda, linear_cuda) &&
    kernels::linear_backward_w.on(Device::cuda, kernels::multiply_and_sum_rows) &&
    kernels::sum_rows.on(Device::cuda, sum_rows_cuda);

}  // namespace bellows
