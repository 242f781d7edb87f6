#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "ops/bucketize.h"

namespace bellows {

namespace {

// Blocks of 256 threads, one element per thread and iteration.
template <class T, class To>
__global__ void find_buckets(const T* x, To* y, int64_t n, const double* edges, int64_t n_edges) {
  await_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count())
    y[i] = To(kernels::bucket_of(double(Acc<T>(x[i])), edges, n_edges));
}

Tensor bucketize_cuda(const Tensor& x, const Tensor& boundaries, DType dtype) {
  const Tensor dense = contiguous(x), y(x.shape(), dtype, x.device());
  const Tensor edges = contiguous(cast(boundaries, DType::f64));
  const auto find = [&]<class T, class To>(T, To) {
    launch(find_buckets<T, To>, grid_of(x.numel()), dense.ptr<T>(), y.ptr<To>(), x.numel(),
           edges.ptr<double>(), edges.numel());
  };
  visit_stored(x.dtype(), [&]<class T>(T value) {
    CHECK(dtype == DType::i64 || dtype == x.dtype(), "bucketize: x is ", x.dtype(),
          ", so y is that or i64 on a device, not ", dtype);
    dtype == DType::i64 ? find(value, int64_t()) : find(value, value);
  });
  return y;
}

struct InLevel {
  const double* edges;
  int64_t n_edges, level;
  template <class A> __device__ A operator()(A x) const {
    return kernels::is_in_level(double(x), edges, n_edges, level) ? A(level) : A(0);
  }
};

Tensor in_level_cuda(const Tensor& x, const Tensor& boundaries, int64_t level) {
  const Tensor edges = cast(contiguous(boundaries), DType::f64), y = empty_like(x);
  visit_stored(x.dtype(), [&]<class T>(T) {
    map_into<T>(y, {&x}, InLevel{edges.ptr<double>(), edges.numel(), level});
  });
  return y;
}

const bool gpu = kernels::bucketize.on(Device::cuda, bucketize_cuda) &&
                 kernels::in_level.on(Device::cuda, in_level_cuda);

}  // namespace
}  // namespace bellows
