// Trains a small model with every toggle: it leaves its footprint if and only if it is on, and the
// losses differ by no more than it promises, alone and together with every other toggle. Runs on a
// GPU where there is one; there only toggles that need it are paired with all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/config/yaml.h"
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

TEST_P(TogglesInTraining, KeepsItsPromiseOnSequencesBesideEveryOther) {
  for (const Toggle& other : toggles()) {
    if (&other <= &toggle || !can_run(other, device)) continue;
    EXPECT_EQ(pair_findings_of_the_adder(toggle, other), "");
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

// ---- a footprint counts its mechanism: neither the setting nor a use of the same code elsewhere
// moves it

// Returns by how much the toggle's footprint moves in a tiny run with these options.
static int64_t footprint(const char* toggle, const std::string& yaml) {
  const Plan plan = load(tiny_plan(DeviceChoice::cpu), parse_yaml(yaml, "test"));
  const Counters counters = tried(plan).counters;
  const auto found = counters.find(find_toggle(toggle)->footprint);
  return found == counters.end() ? 0 : found->second;
}

TEST(Footprint, MovesOnlyIfTheMechanismRuns) {
  const std::string recomputed = cat(kResidualNet, "model.recompute: 1\n"),
                    layers = "model: {name: layers, layers: [flatten, {name: linear, out: ";
  const struct {
    const char* toggle;
    std::string options;
    bool moves;
  } cases[] = {
      {"set_to_none", "train.dry_run: true", false},
      {"set_to_none", "{train.dry_run: true, optimizer.set_to_none: true}", true},
      // The first run of a recomputed segment records nothing, either.
      {"eval_no_grad", cat(recomputed, "eval.every: 1"), false},
      {"eval_no_grad", cat(recomputed, "eval.no_grad: true"), false},
      {"eval_no_grad", cat(recomputed, "eval: {every: 1, no_grad: true}"), true},
      // Several losses are read at once.
      {"sync_free_logging", "log: {every: 1, deferred: true}", false},
      {"sync_free_logging", "log: {every: 2, deferred: true}", true},
      {"thread_budget", "threads: {threads: 1, budget: true}", false},
      {"pad_channels", "{kernels.pad_channels: true, model: mlp}", false},  // f32
      {"pad_channels",
       cat("kernels.pad_channels: true\namp.dtype: bf16\n", layers,
           "16}, {name: linear, out: 10}]}"),
       true},
      {"drop_conv_bias", "model: {name: lenet, drop_conv_bias: true}", false},
  };
  for (const auto& [toggle, options, moves] : cases)
    EXPECT_EQ(footprint(toggle, options) > 0, moves) << toggle << " with " << options;
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
