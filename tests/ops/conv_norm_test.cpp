// conv_norm beyond the generic suite: runs that count as fused, and refusals.
#include "ops/conv/conv_norm.h"
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/refusal.h"

using namespace bellows;

namespace {

ConvNormLayer layer(bool training, DType dtype = DType::f32) {
  return {
      .w = full({2, 2, 1, 1}, 0.5, dtype),
      .conv = {},
      .norm = {full({2}, 1), full({2}, 0), {full({2}, 0), full({2}, 1)}, {.training = training}}};
}
Tensor images(DType dtype = DType::f32) {
  const Tensor x({2, 2, 3, 3}, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = float(i % 5);
  return cast(x, dtype);
}
Tensor run(const Tensor& x, const Tensor& around, const std::vector<ConvNormLayer>& layers,
           const std::vector<ConvNormLayer>& shortcut = {}) {
  return conv_norm(x, around, layers, shortcut, Impl::fused);
}

}  // namespace

TEST(ConvNorm, CountsTheFusedRunsOnly) {
  const trace::Counter& fused = trace::counter("fuse.conv_norm");
  const Tensor x = images();
  const int64_t before = fused.value();
  run(x, x, {layer(false)});  // evaluation is composed
  EXPECT_EQ(fused.value(), before);
  run(x, x, {layer(true)});
  EXPECT_EQ(fused.value(), before + 1);
}

TEST(ConvNorm, TrainsAllOfItsNormsOrNone) {
  const Tensor x = images();
  const char* const want = "conv_norm: some of its norms train, and some evaluate";
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true), layer(false)}); }), want);
  EXPECT_EQ(refusal([&] { run(x, x, {layer(false), layer(true)}); }), want);
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true)}, {layer(false)}); }), want);
}

TEST(ConvNorm, RefusesTwoDTypes) {
  const Tensor x = images(), low = images(DType::f16);
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true, DType::f16)}); }),
            "conv_norm: x is f32 and w is f16");
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true)}, {layer(true, DType::bf16)}); }),
            "conv_norm: x is f32 and w is bf16");
  EXPECT_EQ(refusal([&] { run(x, low, {layer(true)}); }), "conv_norm: x is f32 and around is f16");
  const Autocast cast(DType::bf16);
  EXPECT_EQ(refusal([&] { run(low, low, {layer(true)}); }), "conv_norm: x is f16 and w is bf16");
}
