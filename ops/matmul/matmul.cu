// matmul and linear on the GPU, by the tiled product of core/tensor/gemm.cuh.
#include "core/tensor/copy.h"
#include "core/tensor/gemm.cuh"
#include "ops/base/functors.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"

namespace bellows {

namespace {

template <class T> struct Output {
  T* y;
  int64_t batch, row;
  const T* bias;  // or null
  int64_t bias_step;
  bool relu, add;

  __device__ void enter(int z) { y += z * batch; }
  __device__ void store(int m, int n, Acc<T> value) const {
    T* const at = y + m * row + n;
    if (bias) value += Acc<T>(bias[n * bias_step]);
    if (relu) value = functors::Relu::value(value);
    *at = T(add ? Acc<T>(*at) + value : value);
  }
};

}  // namespace

// y (B, M, N) = a (B, M, K) b (B, K, N), or y += a b, then adds bias (N), which may be undefined,
// and applies relu. Any strides, except that rows of y are contiguous.
static void multiply(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                     const Tensor& bias, bool relu) {
  const Strides &ys = y.strides(), &as = a.strides(), &bs = b.strides();
  const gemm::Extent extent{y.dim(0), y.dim(1), y.dim(2), a.dim(2)};
  const int M = int(extent.M), N = int(extent.N), K = int(extent.depth);
  visit_stored(y.dtype(), [&]<class T>(T) {
    gemm::run(gemm::Matrix<T>{a.ptr<T>(), as[0], as[1], as[2], M, K},
              gemm::Matrix<T>{b.ptr<T>(), bs[0], bs[2], bs[1], N, K},
              Output<T>{y.ptr<T>(), ys[0], ys[1], bias.defined() ? bias.ptr<T>() : nullptr,
                        bias.defined() ? bias.strides()[0] : 0, relu, into == Into::add},
              extent);
  });
}

static void matmul_cuda(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot&) {
  multiply(y, a, b, into, {}, false);
}

static Tensor linear_cuda(const Tensor& x, const Tensor& w, const Tensor& b, bool relu, Slot&) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  using kernels::batched;
  multiply(batched(y, 1), batched(x, 1), batched(transposed(w), 1), Into::overwrite, b, relu);
  return y;
}

static void sum_rows_cuda(const Tensor& dy, const Tensor& db) {
  copy_into(db, kernels::sum(dy, {1, dy.dim(1)}, 1).view_as(db.shape()));
}

static const bool gpu =
    kernels::matmul.on(Device::cuda, matmul_cuda) &&
    kernels::linear.on(Device::cuda, linear_cuda) &&
    kernels::linear_backward_w.on(Device::cuda, kernels::multiply_and_sum_rows) &&
    kernels::sum_rows.on(Device::cuda, sum_rows_cuda);

}  // namespace bellows
