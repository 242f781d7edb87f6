// trainer bench step: the step that it repeats is that of a training, with every toggle.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include "core/base/json.h"
#include "core/base/trace.h"
#include "core/config/config.h"
#include "labs/bench/step.h"
#include "plan/toggle.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"

using namespace bellows;
using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

namespace {

using Words = std::vector<std::string>;

const std::string kBlock =
    "{name: residual, layers: [{name: conv2d, out: 8, padding: 1}, {name: batch_norm}, "
    "{name: relu}, {name: conv2d, out: 8, padding: 1}, {name: batch_norm}]}, ";
const std::string kBlocks =
    cat("model={name: layers, layers: [{name: conv2d, out: 8, padding: 1}, ", kBlock, kBlock,
        "{name: adaptive_avg_pool2d}, {name: flatten}, {name: linear, out: 10}]}");

// A run on a single batch of digits.
Plan plan_with(Words words, const std::string& device = "cpu") {
  const Words base = {"device=" + device,
                      "data={name: digits, train_size: 6, test_size: 6, "
                      "batch_size: 6, shuffle: false}"};
  words.insert(words.begin(), base.begin(), base.end());
  return make_config(read_sources("", words)).plan;
}

struct Steady {
  trace::Counters moved;  // over three steps
  double loss;            // after nine
};
Steady steady(const Words& words) {
  RepeatedStep step(plan_with(words, "cuda"));
  for (int i = 0; i < 6; ++i) step();
  const StepTimes times = time_steps(step, 3, 0);
  return {times.moved, step.loss()};
}

}  // namespace

TEST(BenchStep, LossesAreThoseOfATraining) {
  const Words kinds[] = {{},
                         {"toggles=none"},
                         {"toggles=all", "toggles.kernel_autotune=heuristic"},
                         {"toggles.gradient_accumulation=4"},
                         {"toggles.amp=fp16", "train.on_nonfinite=skip"},
                         {"optimizer=adamw", "optimizer.ema_decay=0.9"},
                         {kBlocks, "toggles.drop_conv_bias=on", "toggles.recompute=2"}};
  for (const Words& words : kinds) {
    Plan plan = plan_with(words);
    plan.train.epochs = 4;  // of one update each
    plan.eval.every = plan.ckpt.every = 0;
    std::vector<double> losses;
    RepeatedStep step(plan);
    for (int i = 0; i < 4; ++i) step(), losses.push_back(step.loss());
    EXPECT_THAT(losses, testing::Pointwise(testing::DoubleEq(), run(plan).losses))
        << testing::PrintToString(words);
  }
}

TEST_F(Program, BenchStepPrintsABlock) {
  const Json block = Json::parse(
      succeed({"bench", "step", "--warmup", "1", "--steps", "4", "--seconds", "0", "device=cpu",
               "threads.threads=1", "data={name: digits, train_size: 32, batch_size: 8}"}));
  EXPECT_EQ(block["model"], "lenet");
  EXPECT_EQ(block["batch"], 8);
  EXPECT_EQ(block["steps"], 4);
  EXPECT_EQ(block["threads"], 1);
  EXPECT_GT(block["ms_median"].get<double>(), 0);
  EXPECT_NEAR(block["ips"].get<double>(), 8e3 / block["ms_median"].get<double>(), 1e-6 * 8e6);
  EXPECT_EQ(block["per_step"]["optim.launches"], 1);
}

// ---- on a GPU

TEST(BenchStepOnDevice, ReplaysAGraphAndNothingElse) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << "no GPU";
  for (const char* amp : {"off", "fp16"}) {
    const Words fast = {"toggles=all", "toggles.kernel_autotune=heuristic",
                        cat("toggles.amp=", amp)};
    Words eager = fast;
    eager.push_back("toggles.cuda_graph=off");
    const Steady replayed = steady(fast);
    EXPECT_THAT(replayed.moved, Contains(Pair("graph.replays", 3)));
    for (const char* name :
         {"sync.count", "alloc.system_calls", "copy.h2d_bytes", "copy.d2h_bytes"})
      EXPECT_THAT(replayed.moved, Not(Contains(Key(name))));
    const Steady launched = steady(eager);
    EXPECT_THAT(launched.moved, Not(Contains(Key("graph.replays"))));
    EXPECT_EQ(replayed.loss, launched.loss);
  }
}
