// A footprint counts its mechanism: neither the setting nor a use of the same code elsewhere moves
// it.
#include <gtest/gtest.h>
#include "core/config/yaml.h"
#include "tests/toggles/trial.h"

using namespace bellows;

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
