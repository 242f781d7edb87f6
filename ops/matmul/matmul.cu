#include "core/tensor/gemm.cuh"
#include "ops/base/functors.h"
#include "ops/matmul/matmul.cuh"

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

void matmul_cuda(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                 const Epilogue& epilogue) {
  const Strides &ys = y.strides(), &as = a.strides(), &bs = b.strides();
  const gemm::Extent extent{y.dim(0), y.dim(1), y.dim(2), a.dim(2)};
  const int M = int(extent.M), N = int(extent.N), K = int(extent.depth);
  const Tensor& bias = epilogue.bias;
  visit_stored(y.dtype(), [&]<class T>(T) {
    gemm::run(gemm::Matrix<T>{a.ptr<T>(), as[0], as[1], as[2], M, K},
              gemm::Matrix<T>{b.ptr<T>(), bs[0], bs[2], bs[1], N, K},
              Output<T>{y.ptr<T>(), ys[0], ys[1], bias.defined() ? bias.ptr<T>() : nullptr,
                        bias.defined() ? bias.strides()[0] : 0, epilogue.relu, into == Into::add},
              extent);
  });
}

static void matmul(const Tensor& y, const Tensor& a, const Tensor& b, Into into, Slot&) {
  matmul_cuda(y, a, b, into);
}
static const bool gpu = kernels::matmul.on(Device::cuda, matmul);

}  // namespace bellows
