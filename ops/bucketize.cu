#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "ops/bucketize.h"

namespace bellows {

namespace {

// y_i = number of edges below x_i, by binary search; NaN is above all of them. Blocks of 256
// threads, one element per thread and iteration.
template <class T, class To>
__global__ void count_below(const T* x, To* y, int64_t n, const double* edges, int64_t n_edges) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const double value = Acc<T>(x[i]);
    int64_t low = 0, high = n_edges;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (value <= edges[middle])
        high = middle;
      else
        low = middle + 1;
    }
    y[i] = To(low);
  }
}

Tensor bucketize_cuda(const Tensor& x, const Tensor& boundaries, DType dtype) {
  const Tensor dense = contiguous(x), y(x.shape(), dtype, x.device());
  const Tensor edges = contiguous(cast(boundaries, DType::f64));
  const auto count = [&]<class T, class To>(T, To) {
    launch(count_below<T, To>, grid_of(x.numel()), dense.ptr<T>(), y.ptr<To>(), x.numel(),
           edges.ptr<double>(), edges.numel());
  };
  visit_stored(x.dtype(), [&]<class T>(T value) {
    CHECK(dtype == DType::i64 || dtype == x.dtype(), "bucketize: x is ", x.dtype(),
          ", so y is that or i64 on a device, not ", dtype);
    dtype == DType::i64 ? count(value, int64_t()) : count(value, value);
  });
  return y;
}
const bool gpu = kernels::bucketize.on(Device::cuda, bucketize_cuda);

}  // namespace
}  // namespace bellows
