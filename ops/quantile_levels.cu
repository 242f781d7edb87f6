#include "core/tensor/copy.h"
#include "core/tensor/map.cuh"
#include "ops/quantile_levels.h"

namespace bellows {

namespace {

// Level k holds edges[k - 1] < x <= edges[k]; NaN is in the last one.
struct InLevel {
  const double* edges;
  int64_t n_edges, level;
  template <class A> __device__ A operator()(A x) const {
    const double value = x;
    const bool above = level == 0 || !(value <= edges[level - 1]);
    return above && (level == n_edges || value <= edges[level]) ? A(level) : A(0);
  }
};

Tensor in_level_cuda(const Tensor& x, const Tensor& boundaries, int64_t level) {
  const Tensor edges = cast(contiguous(boundaries), DType::f64), y = empty_like(x);
  visit_stored(x.dtype(), [&]<class T>(T) {
    map_into<T>(y, {&x}, InLevel{edges.ptr<double>(), edges.numel(), level});
  });
  return y;
}
const bool gpu = kernels::in_level.on(Device::cuda, in_level_cuda);

}  // namespace
}  // namespace bellows
