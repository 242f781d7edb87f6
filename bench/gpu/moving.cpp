// Copies, casts, layout conversions, fills, random values, ops on lists of tensors, indexing.
#include "bench/gpu/bandwidth.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "ops/bucketize.h"
#include "ops/gather.h"

namespace bellows {

static Task copied(const Tensor& to, const Tensor& from) {
  return work({from, to}, [=] { return copy_into(to, from), Outputs{}; });
}
static Task copy_of(const Setup& s) { return copied(s.empty({s.n}, s.dtype), s.normal({s.n})); }
static Task to_channels_last(const Setup& s) {
  const Tensor x = s.normal(s.images(64, 56));
  return copied(Tensor(x.shape(), s.dtype, s.device, kNHWC), x);
}
static Task transpose(const Setup& s) {
  const Tensor x = s.normal(s.rows(4096)), y = s.empty({4096, x.dim(0)}, s.dtype);
  return copied(y.view(x.shape(), {1, x.dim(0)}, 0), x);
}
static Task cast_to(const Setup& s, DType other) {
  return copied(s.empty({s.n}, other), s.normal({s.n}));
}
static Task written(const Setup& s, const std::function<void(const Tensor&)>& write) {
  const Tensor t = s.normal({s.n});
  return work({t}, [=] { return write(t), Outputs{}; });
}
static Task permutation(const Setup& s) {
  const Tensor order = s.empty({s.n / 2}, DType::i64);
  return work({order}, [=] { return kernels::randperm(order, {}), Outputs{}; });
}
static Task add_to(const Setup& s) {
  const Tensor sum = s.normal({s.n}), t = s.normal({s.n});
  return work({sum, sum, t}, [=] { return add_into(sum, t), Outputs{}; });
}
static Task norm(const Setup& s) {
  const Tensor t = s.normal({s.n});
  return work({t}, [=] { return Outputs{norm_of({&t, 1})}; });
}
static Task select_rows(const Setup& s) {
  const Tensor x = s.normal(s.rows(64)), at = s.indices({x.dim(0)}, x.dim(0));
  return work({x, at}, [=] { return Outputs{index_select(x, 0, at)}; });
}
static Task gather_in_rows(const Setup& s) {
  const Tensor x = s.normal(s.rows(64)), at = s.indices(x.shape(), 64);
  return work({x, at}, [=] { return Outputs{kernels::gather(x, 1, at)}; });
}
static Task into_buckets(const Setup& s) {
  const Tensor x = s.normal({s.n}), levels({15}, DType::f32);
  for (int64_t i = 0; i < 15; ++i) levels.data<float>()[i] = float(i - 7) / 4;
  const Tensor boundaries = to(s.device, cast(levels, s.dtype));
  return work({x}, [=] { return Outputs{kernels::bucketize(x, boundaries)}; });
}

static const AddCases cases{
    {"copy", "x; y", copy_of},
    {"copy, NCHW to NHWC", "x; y", to_channels_last},
    {"copy, transposed", "x; y", transpose},
    {"cast to f32", "x; y", [](const Setup& s) { return cast_to(s, DType::f32); }},
    {"cast to bf16", "x; y", [](const Setup& s) { return cast_to(s, DType::bf16); }},
    {"cast to f16", "x; y", [](const Setup& s) { return cast_to(s, DType::f16); }},
    {"fill", "; x", [](const Setup& s) { return written(s, [](auto& t) { fill(t, 0.5); }); }},
    {"fill_uniform", "; x",
     [](const Setup& s) { return written(s, [](auto& t) { fill_uniform(t, 0, 1, {}); }); }},
    {"fill_normal", "; x",
     [](const Setup& s) { return written(s, [](auto& t) { fill_normal(t, 0, 1, {}); }); }},
    {"randperm", "; order", permutation},
    {"add_into", "sum, x; sum", add_to},
    {"norm_of", "x;", norm},
    {"index_select rows of 64", "x, index; y", select_rows},
    {"gather in rows of 64", "x, index; y", gather_in_rows},
    {"bucketize, 15 boundaries", "x; y", into_buckets},
};

}  // namespace bellows
