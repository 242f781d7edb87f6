#include "ops/quantile_levels.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/base/map.h"
#include "ops/bucketize.h"

namespace bellows {

Tensor quantile_levels(const Tensor& x, const Tensor& boundaries, Impl impl) {
  CHECK(boundaries.rank() == 1, "quantile_levels: boundaries ", boundaries.shape(),
        " are not a list");
  if (impl == Impl::fused) {
    static trace::Counter& calls = trace::counter("ops.vectorized_calls");
    calls.add();
    return kernels::bucketize(x, boundaries, x.dtype());
  }
  const Tensor levels = full(x.shape(), 0, x);
  for (int64_t level = 0; level <= boundaries.dim(0); ++level)
    add_into(levels, kernels::in_level(x, boundaries, level));
  return levels;
}

static Tensor run_levels(const Inputs& in, Impl impl) {
  const std::vector<float> boundaries{-1, -0.5, 0, 0.25, 1};
  return quantile_levels(in[0], tensor_of(boundaries, {5}, in[0].device()), impl);
}
static const AddOp spec({.name = "quantile_levels",
                         .math = "values to levels 0 .. n - 1",
                         .cases = {{{7}}, {{2, 3, 4, 5}}},
                         .run = [](const Inputs& in) { return run_levels(in, Impl::fused); },
                         .large = {{{3, 20000}}},
                         .composed =
                             [](const Inputs& in) { return run_levels(in, Impl::composed); },
                         .differentiable = false});

// ---- CPU

// Level k holds boundaries[k - 1] < x <= boundaries[k]; NaN is in the last one.
static Tensor in_level_cpu(const Tensor& x, const Tensor& boundaries, int64_t level) {
  const Tensor edges = cast(contiguous(boundaries), DType::f64), y = empty_like(x);
  const auto edges_ = edges.data<double>();
  const bool first = level == 0, last = level == boundaries.dim(0);
  const double low = first ? 0 : edges_[level - 1], high = last ? 0 : edges_[level];
  visit_float(x.dtype(), [&]<class T>(T) {
    map_into<T>(y, {&x}, [=](T value) {
      const bool inside = (first || !(value <= low)) && (last || value <= high);
      return inside ? T(level) : T(0);
    });
  });
  return y;
}
static const bool cpu = kernels::in_level.on(Device::cpu, in_level_cpu);

}  // namespace bellows
