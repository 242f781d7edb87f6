#include "core/tensor/gemm.cuh"
#include "core/tensor/scaled_product.h"

namespace bellows {

namespace {
// Output of the tiled product (core/tensor/gemm.cuh).
template <class T> struct Sum {
  T* y;
  const T* base;  // or null
  Acc<T> base_scale, scale;
  int64_t batch;
  int columns;
  __device__ void enter(int z) {
    y += z * batch;
    if (base) base += z * batch;
  }
  __device__ void store(int m, int n, Acc<T> value) const {
    const int64_t i = int64_t(m) * columns + n;
    y[i] = T(base ? base_scale * Acc<T>(base[i]) + scale * value : scale * value);
  }
};
}  // namespace

static void product_cuda(const Tensor& y, const Tensor& base, const Tensor& a, const Tensor& b,
                         const Scales& scales, Slot&) {
  const Strides &as = a.strides(), &bs = b.strides();
  const gemm::Extent extent{y.dim(0), y.dim(1), y.dim(2), a.dim(2)};
  const int M = int(extent.M), N = int(extent.N), K = int(extent.depth);
  visit_stored(y.dtype(), [&]<class T>(T) {
    gemm::run(gemm::Matrix<T>{a.ptr<T>(), as[0], as[1], as[2], M, K},
              gemm::Matrix<T>{b.ptr<T>(), bs[0], bs[2], bs[1], N, K},
              Sum<T>{y.ptr<T>(), base.defined() ? base.ptr<T>() : nullptr, Acc<T>(scales.base),
                     Acc<T>(scales.product), int64_t(M) * N, N},
              extent);
  });
  y.raise_version();
}

static const bool gpu = kernels::scaled_product.on(Device::cuda, product_cuda);

}  // namespace bellows
