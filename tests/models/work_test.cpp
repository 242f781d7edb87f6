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

namespace {
// Elements that an unfused cross-entropy of n logits in all moves: log_softmax, the choice of the
// labels, mean, and a factor.
struct Loss {
  double forward, backward;
  Loss(double n, double batch)
      : forward(2 * n + (n + batch) + (batch + 1) + 2),
        backward(3 * n + (2 * n + batch) + (2 * batch + 1) + 3) {}
};

}  // namespace

// Unfused, in elements of an image: convolutions and linear layers read x and w and write y, each
// relu makes 2 and 3 passes, pooling also a byte for each result.
TEST(Work, BytesOfLeNetAreExact) {
  constexpr double kBatch = 3, kX = 784, kC1 = 6 * 784, kP1 = 6 * 196, kC2 = 1600, kP2 = 400;
  const OpWork work =
      work_of_step({{"name", "lenet"}, {"fuse.conv_act_pool", "false"}}, {}, int64_t(kBatch));
  const double first = kBatch * (kX + kC1) + 150;
  const double products = kBatch * (kP1 + kC2) + 2400 + kBatch * (kP2 + 120) + 48000 +
                          kBatch * (120 + 84) + 10080 + kBatch * (84 + 10) + 840;
  const double relus = kBatch * (kC1 + kC2 + 120 + 84);
  const double pools = kBatch * (kC1 + kP1 * 1.25 + kC2 + kP2 * 1.25);
  const Loss loss(kBatch * 10, kBatch);
  EXPECT_EQ(work.forward.bytes, 4 * (first + products + 2 * relus + pools + loss.forward));
  EXPECT_EQ(work.backward.bytes, 4 * (first + 2 * products + 3 * relus + pools + loss.backward));
}

// Images of 256 elements in bf16.
TEST(Work, BytesOfTheOpsOfAResNetAreTheirPasses) {
  const auto expect_bytes = [](const char* op, const Shape& y, int inputs, double forward,
                               double backward) {
    const Operand x{{2, 8, 4, 4}, DType::bf16, true};
    RecordedOp recorded{op, "", y, {x, {}, {}, {}}};
    if (inputs == 2) recorded.inputs[1] = x;
    EXPECT_EQ(work_of(recorded).forward.bytes, forward) << op;
    EXPECT_EQ(work_of(recorded).backward.bytes, backward) << op;
  };
  const Shape image{2, 8, 4, 4};
  expect_bytes("batch_norm", image, 1, 3 * 512, 5 * 512);
  expect_bytes("batch_norm_relu", image, 2, 4 * 512 + 256 / 8, 6 * 512 + 256 / 8);  // masks dy
  expect_bytes("add", image, 2, 3 * 512, 0);                                        // passes dy on
  expect_bytes("adaptive_avg_pool2d", {2, 8, 1, 1}, 1, 512 + 32, 512 + 32);
}

// Six rows of 16 bytes out of a hundred, by an index of 48 bytes. Every row has a gradient.
TEST(Work, AnEmbeddingReadsOnlyTheRowsThatItPicks) {
  const RecordedOp op{"embedding", "", {2, 3, 4}, {{{100, 4}, DType::f32, true}}};
  EXPECT_EQ(work_of(op).forward.bytes, 48 + 2 * 96);
  EXPECT_EQ(work_of(op).backward.bytes, 48 + 96 + 1600);
}

TEST(Work, EachFurtherConsumerAddsAGradient) {
  const Tensor x = require_grad(Tensor({8}, DType::f32));
  fill(x, 1);
  OpLog log;
  const Tensor y = mul(add(x, x), x);
  EXPECT_EQ(gradient_sum_bytes(log.ops), 2 * 3 * 8 * 4);
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
