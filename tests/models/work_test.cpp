// FLOP of a training step, as stated by the ops, against counts by hand: two for each multiply-add
// of the convolutions and linear layers of the papers.
#include "ops/base/work.h"
#include <gtest/gtest.h>
#include "autograd/op_log.h"
#include "core/tensor/foreach.h"
#include "models/losses/loss.h"
#include "ops/elementwise.h"
#include "ops/norm/batch_norm.h"
#include "tests/models/build.h"

using namespace bellows;

namespace {

OpWork work_of_step(const std::map<std::string, std::string>& model, const BuildContext& context,
                    int64_t batch) {
  const ModulePtr module = build(model, context);
  const Shape& s = context.sample;
  const Tensor x({batch, s[0], s[1], s[2]}, DType::f32), labels({batch}, DType::i64);
  fill(x, 1);
  fill(labels, 3);
  OpLog log;
  const Tensor loss = criterion((*module)(x), labels, {});
  OpWork sum;
  for (const RecordedOp& op : log.ops) {
    const OpWork work = work_of(op);
    sum.forward += work.forward;
    sum.backward += work.backward;
  }
  return sum;
}

}  // namespace

// Multiply-adds of an image: 6 x 25 x 28 x 28, 16 x 150 x 10 x 10, 400 x 120, 120 x 84, 84 x 10.
TEST(Work, FlopOfLeNetAreExact) {
  constexpr double kConv1 = 117600, kAll = kConv1 + 240000 + 48000 + 10080 + 840, kBatch = 3;
  for (const char* fused : {"false", "true"}) {
    const OpWork work = work_of_step({{"name", "lenet"}, {"fuse.conv_act_pool", fused}}, {}, 3);
    EXPECT_EQ(work.forward.flop, kBatch * 2 * kAll) << fused;
    EXPECT_EQ(work.backward.flop, kBatch * 2 * (2 * kAll - kConv1)) << "no gradient of the image";
  }
}

// The stem makes 64 channels of 112 x 112 from 7 x 7 x 3. The totals are those of torchvision's
// models at 224 x 224, as fvcore counts them.
TEST(Work, FlopOfResNetsAreExact) {
  constexpr double kStem = 64. * 112 * 112 * 7 * 7 * 3;
  const std::map<std::string, double> multiply_adds = {{"resnet18", 1814073344.},
                                                       {"resnet50", 4089184256.}};
  for (const auto& [name, all] : multiply_adds) {
    const OpWork work =
        work_of_step({{"name", name}}, {.sample = {3, 224, 224}, .classes = 1000}, 1);
    EXPECT_EQ(work.forward.flop, 2 * all) << name;
    EXPECT_EQ(work.backward.flop, 2 * (2 * all - kStem)) << name;
  }
}

TEST(Work, BytesOfOpsAreTheirPasses) {
  const char gradient = 0;
  const auto operand = [&](const Shape& shape, bool has_gradient = true) {
    return Operand{.shape = shape,
                   .dtype = DType::bf16,
                   .defined = true,
                   .grad = has_gradient ? &gradient : nullptr};
  };
  const auto expect_bytes = [](const char* op, const Shape& y, std::vector<Operand> inputs,
                               double forward, double backward) {
    inputs.resize(4);
    const OpWork work = work_of({op, "", y, inputs});
    EXPECT_EQ(work.forward.bytes, forward) << op;
    EXPECT_EQ(work.backward.bytes, backward) << op;
  };
  const Shape image{2, 8, 4, 4};
  const Operand x = operand(image);
  const double filtered = 512 + 2304 + 1024;
  expect_bytes("conv2d", {2, 16, 4, 4}, {x, operand({16, 8, 3, 3})}, filtered, 2 * filtered);
  expect_bytes("conv2d", {2, 16, 4, 4}, {operand(image, false), operand({16, 8, 3, 3})}, filtered,
               filtered);
  expect_bytes("linear", {2, 4}, {operand({2, 8}), operand({4, 8})}, 112, 2 * 112);
  expect_bytes("relu", image, {x}, 2 * 512, 3 * 512);
  expect_bytes("max_pool2d", {2, 8, 2, 2}, {x}, 512 + 128 + 64, 512 + 128 + 64);
  expect_bytes("adaptive_avg_pool2d", {2, 8, 1, 1}, {x}, 512 + 32, 512 + 32);
  expect_bytes("batch_norm", image, {x}, 3 * 512, 5 * 512);
  expect_bytes("batch_norm_relu", image, {x, x}, 4 * 512 + 256 / 8, 6 * 512 + 256 / 8);
  expect_bytes("add", image, {x, x}, 3 * 512, 0);  // passes dy on
  // An embedding reads only the rows that it picks, by an index of 48 bytes. Each has a gradient.
  expect_bytes("embedding", {2, 3, 4}, {operand({100, 4})}, 48 + 2 * 48, 48 + 48 + 800);
}

// A norm adds two gradients itself: it reads one more, and writes the sum. A third one is a pass.
TEST(Work, ANormAddsTheGradientsOfTwoConsumers) {
  const Tensor x = require_grad(full({4, 2}, 1)), one = full({2}, 1), zero = zeros({2});
  OpLog log;
  const Tensor y = batch_norm(x, {one, zero, {zeros({2}), full({2}, 1)}});
  const Tensor twice = add(y, y);
  EXPECT_EQ(gradient_sum_bytes(log.ops), 2 * 8 * 4);
  const Tensor thrice = add(twice, y);
  EXPECT_EQ(gradient_sum_bytes(log.ops), (2 + 3) * 8 * 4);
}
