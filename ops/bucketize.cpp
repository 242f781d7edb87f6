#include "ops/bucketize.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/base/map.h"

namespace bellows {

// ---- the ops

static void check_list(const char* op, const Tensor& boundaries) {
  CHECK(boundaries.rank() == 1, op, ": boundaries ", boundaries.shape(), " are not a list");
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries) {
  check_list("bucketize", boundaries);
  return kernels::bucketize(x, boundaries, DType::i64);
}

Tensor quantile_levels(const Tensor& x, const Tensor& boundaries, Impl impl) {
  check_list("quantile_levels", boundaries);
  if (impl == Impl::fused) {
    trace::count<"ops.vectorized_calls">();
    return kernels::bucketize(x, boundaries, x.dtype());
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

// ---- CPU

static Tensor bucketize_cpu(const Tensor& x, const Tensor& boundaries, DType dtype) {
  const Tensor dense = contiguous(x), y(x.shape(), dtype);
  const Tensor edges = contiguous(cast(boundaries, DType::f64));
  const auto edges_ = edges.data<double>();
  CHECK(std::ranges::is_sorted(edges_), "bucketize: the ", edges_.size(),
        " boundaries are not in ascending order");
  visit_float(x.dtype(), [&]<class T>(T) {
    visit_dtype(dtype, [&]<class To>(To) {
      const T* const x_ = dense.ptr<T>();
      To* const y_ = y.ptr<To>();
      parallel_for(x.numel(), 8192, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i)
          y_[i] = To(kernels::bucket_of(double(x_[i]), edges_.data(), int64_t(edges_.size())));
      });
    });
  });
  return y;
}

static Tensor in_level_cpu(const Tensor& x, const Tensor& boundaries, int64_t level) {
  const Tensor edges = cast(contiguous(boundaries), DType::f64), y = empty_like(x);
  visit_float(x.dtype(), [&]<class T>(T) {
    map_into<T>(y, {&x}, [level, edges_ = edges.ptr<double>(), n = edges.numel()](T value) {
      return kernels::is_in_level(double(value), edges_, n, level) ? T(level) : T(0);
    });
  });
  return y;
}

static const bool cpu = kernels::bucketize.on(Device::cpu, bucketize_cpu) &&
                        kernels::in_level.on(Device::cpu, in_level_cpu);

}  // namespace bellows
