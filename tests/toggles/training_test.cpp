// Trains a small model with every toggle: it leaves its footprint if and only if it is on, and the
// losses differ by no more than it promises, alone and together with every other toggle. Runs on a
// GPU where there is one; there only toggles that need it are paired with all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "tests/plans.h"
#include "tests/toggles/trial.h"
#include "trainer/verbs/topics.h"

using namespace bellows;
using testing::HasSubstr;
using testing::StartsWith;

class TogglesInTraining : public testing::TestWithParam<std::string> {
 protected:
  explicit TogglesInTraining(DeviceChoice device = DeviceChoice::cpu) : device(device) {}
  void SetUp() override {
    if (!can_run(toggle, device)) GTEST_SKIP() << no_effect(toggle, device);
  }
  const DeviceChoice device;
  const Toggle& toggle = *find_toggle(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Of, TogglesInTraining, testing::ValuesIn(toggle_names()),
                         [](const auto& info) { return info.param; });

TEST_P(TogglesInTraining, LeavesItsFootprintAndKeepsItsPromise) {
  EXPECT_EQ(footprint_findings(toggle, device), "");
  EXPECT_EQ(loss_findings(toggle, device), "");
  for (const auto& [name, value] : trace::counters())
    EXPECT_TRUE(find_topic(name)) << name << " has no line in docs/topics.md";
}

// A promise about training alone says nothing of the running statistics.
TEST_P(TogglesInTraining, KeepsItsPromiseInEvaluationAfter1And4And24Updates) {
  EXPECT_EQ(evaluation_findings(toggle, device), "");
}

// Sanitizers are slow, so under them each pair is tested once instead of from both sides.
TEST_P(TogglesInTraining, KeepsItsPromiseBesideEveryOther) {
  for (const Toggle& other : toggles()) {
    if (&other == &toggle || !can_run(other, device)) continue;
#ifdef __SANITIZE_ADDRESS__
    if (&other < &toggle) continue;
#endif
    EXPECT_EQ(pair_findings(toggle, other, device), "");
  }
}

class TogglesOnDevice : public TogglesInTraining {
 protected:
  TogglesOnDevice() : TogglesInTraining(DeviceChoice::cuda) {}
  void SetUp() override {
    if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
    TogglesInTraining::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Of, TogglesOnDevice, testing::ValuesIn(toggle_names()),
                         [](const auto& info) { return info.param; });

TEST_P(TogglesOnDevice, LeaveTheirFootprintAndKeepTheirPromise) {
  EXPECT_EQ(footprint_findings(toggle, device), "");
  EXPECT_EQ(loss_findings(toggle, device), "");
}

TEST_P(TogglesOnDevice, KeepTheirPromiseBesideThoseThatNeedAGpu) {
  for (const Toggle& other : toggles()) {
    if (&other == &toggle || !std::ranges::count(other.needs, "cuda")) continue;
    EXPECT_EQ(pair_findings(toggle, other, device), "");
  }
}

// ---- negative controls: toggles that are planted to be wrong must be found

static constexpr DeviceChoice kCpu = DeviceChoice::cpu;

static Toggle planted(void (*enable)(Plan&)) {
  Toggle toggle = *find_toggle("fused_optimizer");
  toggle.name = "planted";
  toggle.enable = enable;
  return toggle;
}

// Sets an unrelated option, so that nothing is fused.
static const auto forgetful = [](Plan& plan) { plan.train.max_nonfinite = 7; };

TEST(PlantedInTraining, AnOptionThatItsComponentIgnoresIsFound) {
  EXPECT_EQ(footprint_findings(planted(forgetful), kCpu),
            "planted: on, but optim.fused_launches stood still\n");
}

TEST(PlantedInTraining, AMechanismThatRunsWhenItIsOffIsFound) {
  Toggle toggle = planted(forgetful);
  toggle.proof = "optimizer.fused: true";
  EXPECT_THAT(footprint_findings(toggle, kCpu),
              StartsWith("planted: off, but optim.fused_launches moved by 6"));
}

TEST(PlantedInTraining, LossesThatDifferAreFound) {
  const auto shuffles = [](Plan& plan) { plan.data.loader.sampler.device_randperm = true; };
  EXPECT_THAT(loss_findings(planted(shuffles), kCpu),
              HasSubstr("planted: on: update 1: the loss is "));
  Toggle close = planted(shuffles);
  close.same = Same::close;
  close.tolerance = 1e-6;
  EXPECT_THAT(loss_findings(close, kCpu), HasSubstr("close is what it promises"));
  const auto trains_less = [](Plan& plan) { plan.train.max_iters = 5; };
  EXPECT_EQ(loss_findings(planted(trains_less), kCpu), "planted: on: 5 updates in place of 6\n");
}

TEST(PlantedInTraining, EvaluationsThatDifferAreFound) {
  const auto remembers = [](Plan& plan) {
    plan = load(plan, {{"model.layers.1.momentum", {"0.2"}}});
  };
  Toggle close = *find_toggle("drop_conv_bias");
  close.name = "planted", close.enable = remembers;
  EXPECT_EQ(loss_findings(close, kCpu), "");
  EXPECT_THAT(evaluation_findings(close, kCpu), StartsWith("planted: on: update 1: the loss is "));
}

TEST(PlantedInTraining, AModelThatDoesNotLearnIsFound) {
  const Closeness statistical{Same::statistical};
  EXPECT_EQ(compare({{3, 2, 1}, {}}, {{4, 3, 2}, {}}, statistical), "");
  EXPECT_EQ(compare({{3, 2, 1}, {}}, {{1, 2, 3}, {}}, statistical), "the losses go from 1 to 3");
  EXPECT_EQ(compare({{3, 2, 1}, {}}, {{3, NAN, 1}, {}}, statistical), "a loss of nan");
}

TEST(PlantedInTraining, APairThatSpoilsEachOtherIsFound) {
  const Toggle spoiler = planted([](Plan& plan) { plan.seed = 99; });
  EXPECT_THAT(pair_findings(*find_toggle("set_to_none"), spoiler, kCpu),
              StartsWith("set_to_none and planted: update 1: the loss is "));
}
