// The toggle channels_last in a run: batches and weights are created in NHWC, so nothing is
// transposed.
#include <gtest/gtest.h>
#include "core/base/trace.h"
#include "ops/conv/conv2d.h"
#include "plan/toggle.h"
#include "tests/trainer/runs.h"

using namespace bellows;

namespace {

Plan plan_with(const char* channels_last) {
  Plan plan = load(Plan{}, {{"device", {"cpu"}},
                            {"data", {"shapes"}},
                            {"data.train_size", {"24"}},
                            {"data.test_size", {"8"}},
                            {"data.batch_size", {"8"}},
                            {"model", {"resnet18"}},
                            {"model.width", {"8"}},
                            {"train.epochs", {"1"}},
                            {"eval.every", {"0"}}});
  for (const char* name :
       {"vendor_kernels", "fused_optimizer", "fused_loss", "fused_bn_act", "fused_bn_add_act"})
    plan = switched(plan, *find_toggle(name), "on");
  return switched(plan, *find_toggle("channels_last"), channels_last);
}

// Transposes in each of three updates.
std::vector<int64_t> transposes(Session& session) {
  const trace::Counter& made = trace::counter("layout.transposes");
  std::vector<int64_t> all{made.value()};
  run(session, [&](const Position&) { all.push_back(made.value()); });
  return {all[1] - all[0], all[2] - all[1], all[3] - all[2]};
}

}  // namespace

TEST(ChannelsLastRun, TransposesNothingAfterItsFirstUpdate) {
  if (!kernels::conv2d.has_vendor(Device::cpu)) GTEST_SKIP() << "built without oneDNN";
  Session nchw(plan_with("off")), nhwc(plan_with("on"));
  EXPECT_GT(transposes(nchw)[2], 0);
  const std::vector<int64_t> left = transposes(nhwc);
  EXPECT_EQ(left[1], 0);
  EXPECT_EQ(left[2], 0);
  for (const NamedTensor& p : nhwc.parameters)
    if (p.tensor.rank() == 4) {
      EXPECT_EQ(p.tensor.strides(), strides_of(p.tensor.shape(), kNHWC)) << p.name;
    }
  Batch batch;
  nhwc.feed->start(0);
  ASSERT_TRUE(nhwc.feed->next(batch));
  EXPECT_EQ(batch.x.strides(), strides_of(batch.x.shape(), kNHWC));
}
