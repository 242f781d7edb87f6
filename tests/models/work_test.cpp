// FLOP of a training step, as stated by the ops, against counts by hand: two for each multiply-add
// of the convolutions and linear layers of the papers.
#include "ops/base/work.h"
#include <gtest/gtest.h>
#include "autograd/op_log.h"
#include "core/tensor/foreach.h"
#include "models/losses/loss.h"
#include "ops/elementwise.h"
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

// Three passes over the elements forward and five backward, two bytes in bf16.
TEST(Work, BytesOfANormAreItsPasses) {
  RecordedOp norm{"batch_norm", "", {2, 8, 4, 4}, {{{2, 8, 4, 4}, DType::bf16, true}, {}, {}, {}}};
  EXPECT_EQ(work_of(norm).forward.bytes, 3 * 256 * 2);
  EXPECT_EQ(work_of(norm).backward.bytes, 5 * 256 * 2);
  norm.name = "batch_norm_relu";
  norm.inputs[1] = norm.inputs[0];
  EXPECT_EQ(work_of(norm).forward.bytes, 4 * 256 * 2 + 256 / 8);
  EXPECT_EQ(work_of(norm).backward.bytes, 6 * 256 * 2 + 2 * 256 / 8);
}

TEST(Work, EachFurtherConsumerAddsAGradient) {
  const Tensor x = require_grad(Tensor({8}, DType::f32));
  fill(x, 1);
  OpLog log;
  const Tensor y = mul(add(x, x), x);
  EXPECT_EQ(gradient_sum_bytes(log.ops), 2 * 3 * 8 * 4);
}
