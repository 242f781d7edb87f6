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

// Models whose first layer is no convolution receive images in f32.
TEST(ModelInput, OfAnyModelTrainsAsCastBitForBit) {
  for (const char* const model :
       {"{name: resnet18, width: 2}", "{name: lenet, fuse: {conv_act_pool: true}}", "mlp",
        "levels_mlp",
        "{name: layers, layers: [{name: residual, layers: [{name: conv2d, padding: 1}]}, flatten, "
        "{name: linear, out: 10}]}"}) {
    Values values = from_yaml(cat("model: ", model));
    values["amp.dtype"] = {"bf16"};
    EXPECT_EQ(run(augmented(plan_with(values))).hash, run(plan_with(values)).hash) << model;
  }
}
