// The step that bench_step times equals the trainer's, with every toggle that acts in a step.
#include "peers/step/step.h"
#include <gmock/gmock.h>
#include "core/base/trace.h"
#include "tests/refusal.h"
#include "tests/trainer/runs.h"

using namespace bellows;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

namespace {

using Words = std::vector<std::string>;

// Models whose memory is mostly saved activations.
const std::string kBlock =
    "{name: residual, layers: [{name: conv2d, out: 8, padding: 1}, {name: batch_norm}, "
    "{name: relu}, {name: conv2d, out: 8, padding: 1}, {name: batch_norm}]}, ";
const std::string kBlocks = cat(
    "model={name: layers, layers: [{name: conv2d, out: 8, padding: 1}, ", kBlock, kBlock, kBlock,
    kBlock, "{name: adaptive_avg_pool2d}, {name: flatten}, {name: linear, out: 1000}]}");

StepRequest request_of(const Words& words, const char* device = "cpu") {
  StepRequest request{.device = device, .batch = 6, .words = words};
  if (std::ranges::count(words, kBlocks)) request.model = "layers", request.image = 64;
  return request;
}

struct Steady {
  Counters moved;  // over three steps
  double loss;     // after seven
  int64_t peak;    // bytes
};
Steady steady(const Words& words, const char* device = "cpu") {
  NoiseStep step(config_of(request_of(words, device)).plan);
  reset_peak(step.device());
  for (int i = 0; i < 4; ++i) step();
  const Times times = time_steps(step, 3, 0);
  return {times.moved, step.loss(), allocator_stats(step.device()).peak_allocated};
}

int64_t counted(const char* name) { return trace::counter(name).value(); }

}  // namespace

// ---- options that act in a step

TEST(BenchStep, LossesAreThoseOfATraining) {
  const Words kinds[] = {{},
                         {"toggles=none"},
                         {"toggles=all", "toggles.kernel_autotune=heuristic"},
                         {"toggles.gradient_accumulation=4"},
                         {"toggles.amp=fp16", "train.on_nonfinite=skip"},
                         {"optimizer=adamw", "optimizer.ema_decay=0.9"},
                         {kBlocks, "toggles.drop_conv_bias=on", "toggles.recompute=2"}};
  for (const Words& words : kinds) {
    Plan plan = config_of(request_of(words)).plan;
    plan.data.loader.sampler.shuffle = false;  // would reorder the samples of the batch
    plan.train.epochs = 4;                     // of one update each
    plan.eval.every = plan.ckpt.every = 0;
    std::vector<double> losses;
    NoiseStep step(plan);
    for (int i = 0; i < 4; ++i) step(), losses.push_back(step.loss());
    EXPECT_THAT(losses, testing::Pointwise(testing::DoubleEq(), run(plan).losses))
        << testing::PrintToString(words);
  }
}

TEST(BenchStep, RecomputeTakesLessMemory) {
  const Steady off = steady({kBlocks}), on = steady({kBlocks, "toggles.recompute=blocks"});
  EXPECT_LT(on.peak, .8 * off.peak);
  EXPECT_THAT(on.moved, Contains(Pair("recompute.replays", 3 * 4)));
  EXPECT_EQ(on.loss, off.loss);
}

TEST(BenchStep, AccumulationTakesABatchInParts) {
  const Steady whole = steady({kBlocks}),
               parts = steady({kBlocks, "toggles.gradient_accumulation=3"});
  EXPECT_LT(parts.peak, .6 * whole.peak);
  EXPECT_THAT(parts.moved, AllOf(Contains(Pair("update.accumulated", 3)),
                                 Contains(Pair("norm.batches", 3 * 3 * 8))));
}

TEST(BenchStep, ConvolutionsLoseTheirBias) {
  const int64_t before = counted("model.conv_biases_dropped");
  steady({kBlocks, "toggles.drop_conv_bias=on"});
  EXPECT_EQ(counted("model.conv_biases_dropped") - before, 8);
}

TEST(BenchStep, MemoryIsThereBeforeTheFirst) {
  const auto taken_by_first = [](const char* preallocate) {
    empty_cache(Device::cpu);
    NoiseStep step(config_of(request_of({kBlocks, preallocate})).plan);
    const int64_t before = allocator_stats(Device::cpu).reserved;
    step();
    return allocator_stats(Device::cpu).reserved - before;
  };
  EXPECT_GT(taken_by_first("toggles.preallocate=off"), 1 << 20);
  EXPECT_LT(taken_by_first("toggles.preallocate=on"), 1 << 16) << "the optimizer's own";
}

TEST(BenchStep, KernelsAreTriedOutInTheirWindowOnly) {
  const auto plan = config_of(request_of({kBlocks, "toggles.kernel_autotune=benchmark",
                                          "train.tuning_window=[2, 2]"}))
                        .plan;
  NoiseStep step(plan);
  std::vector<int64_t> hits = {counted("autotune.hits")};
  for (int i = 0; i < 3; ++i) step(), hits.push_back(counted("autotune.hits"));
  EXPECT_EQ(hits[1], hits[0]);
  EXPECT_GT(hits[3], hits[2]) << "what was found";
}

TEST(BenchStep, TheWaitsAroundABlockAreNotItsSteps) {
  const int64_t before = counted("sync.count");
  EXPECT_THAT(steady({}).moved,
              AllOf(Contains(Pair("optim.launches", 3)), Not(Contains(Key("sync.count")))));
  EXPECT_GE(counted("sync.count") - before, 2);
}

// ---- options that do not

TEST(BenchStep, RefusesWhatItWouldIgnore) {
  for (const char* word :
       {"toggles.num_workers=2", "toggles={pin_memory: on}", "toggles.sync_free_logging=on",
        "toggles.async_checkpoint=on", "data=digits", "data.batch_size=8", "eval.every=2",
        "schedule=cosine", "train.epochs=3"}) {
    const Refusal refused = bellows::refused([&] { config_of(request_of({word})); });
    EXPECT_EQ(refused.exit, Exit::usage) << word;
    EXPECT_THAT(refused.message,
                AllOf(HasSubstr("command line: "), HasSubstr("has no part in a step")))
        << word;
  }
}

TEST(BenchStep, APresetLeavesThatOut) {
  const Config config = config_of(request_of({"toggles=all"}));
  EXPECT_EQ(config.plan.data.loader.workers.num_workers, 0);
  EXPECT_FALSE(config.plan.log.deferred);
  EXPECT_TRUE(config.plan.data.loader.batch.channels_last) << "is the model's, too";
  EXPECT_TRUE(config.plan.train.dry_run);
}

// ---- on a GPU

TEST(BenchStepOnDevice, ReplaysAGraphAndNothingElse) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << "no GPU";
  for (const char* amp : {"off", "fp16"}) {
    const Words fast = {"toggles=all", "toggles.kernel_autotune=heuristic",
                        cat("toggles.amp=", amp)};
    Words eager = fast;
    eager.push_back("toggles.cuda_graph=off");
    const Steady replayed = steady(fast, "cuda");
    EXPECT_THAT(replayed.moved, Contains(Pair("graph.replays", 3)));
    for (const char* name :
         {"sync.count", "alloc.system_calls", "copy.h2d_bytes", "copy.d2h_bytes"})
      EXPECT_THAT(replayed.moved, Not(Contains(Key(name))));
    const Steady launched = steady(eager, "cuda");
    EXPECT_THAT(launched.moved, Not(Contains(Key("graph.replays"))));
    EXPECT_EQ(replayed.loss, launched.loss);
  }
}
