#include "ops/bucketize.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"
#include "ops/base/map.h"
#include "ops/bucketize_kernels.h"

namespace bellows {

// ---- the ops

static void check_list(const char* op, const Tensor& boundaries) {
  CHECK(boundaries.rank() == 1, op, ": boundaries ", boundaries.shape(), " are not a list");
  if (boundaries.device() != Device::cpu) return;
  const Tensor edges = cast(contiguous(boundaries), DType::f64);
  CHECK(std::ranges::is_sorted(edges.data<double>()), op, ": the ", edges.numel(),
        " boundaries are not in ascending order");
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries) {
  check_list("bucketize", boundaries);
  // 16-bit types cannot represent every index.
  const Tensor exact = is_low(x.dtype()) ? cast(x, DType::f32) : x;
  return cast(kernels::bucketize(contiguous(exact), boundaries), DType::i64);
}

Tensor quantile_levels(const Tensor& x, const Tensor& boundaries, Impl impl) {
  check_list("quantile_levels", boundaries);
  if (impl == Impl::fused) {
    trace::count<"ops.vectorized_calls">();
    return kernels::bucketize(x, boundaries);
  }
  const Tensor levels = full(x.shape(), 0, x);
  for (int64_t level = 0; level <= boundaries.dim(0); ++level)
    add_into(levels, kernels::in_level(x, boundaries, level));
  return levels;
}

static Tensor edges_for(const Inputs& in) {
  return tensor_of<float>({-1, -0.5, 0, 0.25, 1}, {5}, in[0].device());
}
static const AddOp spec({.name = "bucketize",
                         .math = "number of boundaries below x",
                         .cases = {{{7}}, {{2, 3, 4, 5}}},
                         .run = [](const Inputs& in) { return bucketize(in[0], edges_for(in)); },
                         .large = {{{3, 20000}}},
                         .differentiable = false});

template <Impl impl> static Tensor run_levels(const Inputs& in) {
  return quantile_levels(in[0], edges_for(in), impl);
}
static const AddOp levels_spec({.name = "quantile_levels",
                                .math = "values to levels 0 .. n - 1",
                                .cases = {{{7}}, {{2, 3, 4, 5}}},
                                .run = run_levels<Impl::fused>,
                                .large = {{{3, 20000}}},
                                .composed = run_levels<Impl::composed>,
                                .differentiable = false});

static const bool cpu = add_kernels(Device::cpu);

}  // namespace bellows
