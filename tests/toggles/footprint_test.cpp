// A footprint counts its mechanism: neither the setting nor a use of the same code elsewhere moves
// it.
#include <gtest/gtest.h>
#include "core/config/config.h"
#include "tests/toggles/trial.h"

using namespace bellows;

// Returns by how much the toggle's footprint moves in a tiny run with these options.
static int64_t footprint(const char* toggle, const std::string& yaml) {
  const Plan plan = load(tiny_plan(DeviceChoice::cpu), parse_yaml(yaml, "test"));
  const Counters counters = tried(plan).counters;
  const auto found = counters.find(find_toggle(toggle)->footprint);
  return found == counters.end() ? 0 : found->second;
}

TEST(Footprint, OfSetToNoneIgnoresTheDryRun) {
  EXPECT_EQ(footprint("set_to_none", "train.dry_run: true"), 0);
  EXPECT_GT(footprint("set_to_none", "{train.dry_run: true, optimizer.set_to_none: true}"), 0);
}

// The first run of a recomputed segment records nothing, either.
TEST(Footprint, OfEvalNoGradCountsEvaluationsOnly) {
  const std::string recomputed = cat(kResidualNet, "model.recompute: 1\n");
  EXPECT_EQ(footprint("eval_no_grad", cat(recomputed, "eval.every: 1")), 0);
  EXPECT_EQ(footprint("eval_no_grad", cat(recomputed, "eval.no_grad: true")), 0);
  EXPECT_GT(footprint("eval_no_grad", cat(recomputed, "eval: {every: 1, no_grad: true}")), 0);
}

TEST(Footprint, OfSyncFreeLoggingNeedsSeveralLossesPerRead) {
  EXPECT_EQ(footprint("sync_free_logging", "log: {every: 1, deferred: true}"), 0);
  EXPECT_GT(footprint("sync_free_logging", "log: {every: 2, deferred: true}"), 0);
}

TEST(Footprint, OfThreadBudgetMovesOnlyIfItWithholdsThreads) {
  EXPECT_EQ(footprint("thread_budget", "threads: {threads: 1, budget: true}"), 0);
}

TEST(Footprint, OfPadChannelsMovesOnlyIfAChannelIsAdded) {
  const char* const wide =
      "kernels.pad_channels: true\namp.dtype: bf16\n"
      "model: {name: layers, layers: [flatten, {name: linear, out: 16}, {name: linear, out: ";
  EXPECT_EQ(footprint("pad_channels", "{kernels.pad_channels: true, model: mlp}"), 0) << "f32";
  EXPECT_GT(footprint("pad_channels", cat(wide, "10}]}")), 0);
}

TEST(Footprint, OfDropConvBiasMovesOnlyIfABiasIsDropped) {
  EXPECT_EQ(footprint("drop_conv_bias", "model: {name: lenet, drop_conv_bias: true}"), 0);
}
