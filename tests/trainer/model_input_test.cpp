// Under device_augment, a model that begins with a convolution receives images in the form that the
// convolution reads: the same bits as if they were cast and padded later.
#include <gtest/gtest.h>
#include "tests/trainer/runs.h"

using namespace bellows;

namespace {

// 28 digits in batches of 8. The transforms on the device need no rounding to bytes before them.
Plan plan_with(const Values& more) {
  return plan_of(from_yaml(R"(
data: {train_size: 28, test_size: 12, batch_size: 8,
       transforms: [{name: random_crop, size: 28, padding: 2}, normalize]}
optimizer.momentum: 0.9
train.epochs: 2
eval.every: 0
threads.threads: 1
)"),
                 more);
}
Plan augmented(Plan plan) {
  plan.data.loader.feed.device_augment = true;
  return plan;
}

Batch first_batch(Session& session) {
  session.feed->start(0);
  Batch batch;
  EXPECT_TRUE(session.feed->next(batch));
  return batch;
}

}  // namespace

TEST(ModelInput, MadeInSixteenBitsTrainsAsCastBitForBit) {
  for (const char* const precision : {"off", "bf16", "fp16"})
    for (const bool nhwc : {false, true})
      for (const bool vendor : {false, true}) {
        SCOPED_TRACE(cat(precision, nhwc ? ", NHWC" : "", vendor ? ", vendor" : ""));
        Plan plan = plan_with({{"amp.dtype", {precision}}, {"eval.every", {"2"}}});
        plan.data.loader.batch.channels_last = plan.model.channels_last = nhwc;
        plan.kernels.pad_channels = nhwc;
        plan.kernels.vendor = vendor;
        const Ran want = run(plan), got = run(augmented(plan));
        EXPECT_EQ(got.losses, want.losses);
        EXPECT_EQ(got.hash, want.hash);
        EXPECT_EQ(got.metrics->value("loss"), want.metrics->value("loss"));
        Session session(augmented(plan));
        const Batch batch = first_batch(session);
        EXPECT_EQ(batch.x.dtype(), plan.amp.low());
        const Tensor captured = session.zeros_like_batches(batch.size()).x;
        EXPECT_EQ(captured.dtype(), batch.x.dtype());
        EXPECT_EQ(captured.strides(), batch.x.strides());
      }
}

// Any other first layer receives images in f32.
TEST(ModelInput, IsInF32WhereTheModelDoesNotBeginWithAConvolution) {
  const std::pair<const char*, DType> cases[] = {
      {"model: lenet", DType::bf16},
      {"model: {name: resnet18, width: 2}", DType::bf16},
      {"model: {name: lenet, fuse: {conv_act_pool: true}}", DType::f32},
      {"model: mlp", DType::f32},
      {"model: levels_mlp", DType::f32},
      {"model: {name: layers, layers: [{name: residual, layers: [{name: conv2d, padding: 1}]}, "
       "flatten, {name: linear, out: 10}]}",
       DType::f32},
  };
  for (const auto& [model, dtype] : cases) {
    Values values = from_yaml(model);
    values["amp.dtype"] = {"bf16"};
    Session session(augmented(plan_with(values))), host(plan_with(values));
    SCOPED_TRACE(session.model->children().front().module->kind());
    EXPECT_EQ(first_batch(session).x.dtype(), dtype);
    EXPECT_EQ(session.zeros_like_batches(2).x.dtype(), dtype);
    EXPECT_EQ(first_batch(host).x.dtype(), DType::f32);
  }
}
