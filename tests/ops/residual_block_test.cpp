// residual_block beyond the generic suite: runs that count as fused, and refusals.
#include "ops/conv/residual_block.h"
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/refusal.h"

using namespace bellows;

namespace {

ConvNorm layer(bool training, DType dtype = DType::f32) {
  return {.w = full({2, 2, 1, 1}, 0.5, dtype),
          .conv = {},
          .weight = full({2}, 1),
          .bias = full({2}, 0),
          .running = {full({2}, 0), full({2}, 1)},
          .norm = {.training = training}};
}
Tensor images(DType dtype = DType::f32) {
  const Tensor x({2, 2, 3, 3}, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = float(i % 5);
  return cast(x, dtype);
}
Tensor run(const Tensor& x, const Tensor& around, const std::vector<ConvNorm>& layers,
           const std::vector<ConvNorm>& shortcut = {}) {
  return residual_block(x, around, layers, shortcut, Impl::fused);
}

}  // namespace

TEST(ResidualBlock, CountsTheFusedRunsOnly) {
  const trace::Counter& fused = trace::counter("fuse.conv_norm");
  const Tensor x = images();
  const int64_t before = fused.value();
  run(x, x, {layer(false)});  // evaluation is composed
  EXPECT_EQ(fused.value(), before);
  run(x, x, {layer(true)});
  EXPECT_EQ(fused.value(), before + 1);
}

TEST(ResidualBlock, TrainsAllOfItsNormsOrNone) {
  const Tensor x = images();
  const char* const want = "residual_block: some of its norms train, and some evaluate";
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true), layer(false)}); }), want);
  EXPECT_EQ(refusal([&] { run(x, x, {layer(false), layer(true)}); }), want);
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true)}, {layer(false)}); }), want);
}

TEST(ResidualBlock, RefusesTwoDTypes) {
  const Tensor x = images(), low = images(DType::f16);
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true, DType::f16)}); }),
            "residual_block: x is f32 and w is f16");
  EXPECT_EQ(refusal([&] { run(x, x, {layer(true)}, {layer(true, DType::bf16)}); }),
            "residual_block: x is f32 and w is bf16");
  EXPECT_EQ(refusal([&] { run(x, low, {layer(true)}); }),
            "residual_block: x is f32 and around is f16");
  const Autocast cast(DType::bf16);
  EXPECT_EQ(refusal([&] { run(low, low, {layer(true)}); }),
            "residual_block: x is f16 and w is bf16");
}
