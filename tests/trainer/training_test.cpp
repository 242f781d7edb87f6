// Training in this process: resume and threads, compared by the hash of the final parameters; the
// dry run; losses that are not finite.
#include <omp.h>
#include <unistd.h>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include "autograd/backward.h"
#include "core/base/json.h"
#include "tests/matchers.h"
#include "tests/refusal.h"
#include "tests/trainer/runs.h"
#include "trainer/run/run.h"
#include "trainer/session/training_step.h"

using namespace bellows;

namespace {

// Six updates per epoch, with all that a checkpoint must save: momentum, a schedule, dropout, the
// order of an epoch.
Plan small_plan(const Values& more = {}) {
  return plan_of(from_yaml(R"(
data: {train_size: 48, test_size: 20, batch_size: 8}
model: {name: mlp, hidden: [16], dropout: 0.3}
optimizer.momentum: 0.9
schedule: cosine
train.epochs: 3
log.every: 2
eval.every: 0
)"),
                 more);
}

Plan small_resnet(bool channels_last, const Values& more = {}) {
  return plan_of(
      from_yaml(cat(
          "data: {train_size: 24, test_size: 8, batch_size: 8, channels_last: ",
          channels_last ? "true" : "false", "}\nmodel: {name: resnet18, width: 2, channels_last: ",
          channels_last ? "true" : "false", "}\noptimizer.momentum: 0.9\ntrain.epochs: 1\n")),
      more);
}

std::string resumed_hash(const SafeTensors& saved, const Plan& plan) {
  Session session(plan);
  return resume(session, saved).hash;
}

}  // namespace

// ---- resume

// Loss scale so high that the first updates overflow and are skipped.
static const Values kOverflowing = {{"amp.dtype", {"fp16"}}, {"amp.scaler.init_scale", {"1e7"}}};

TEST(Resume, AtAnyStepEndsWithTheSameBits) {
  const Values groups =
      from_yaml("optimizer: {groups: [{parameters: '*.weight', name: adamw}], ema_decay: 0.7}");
  Plan adamw = small_plan();
  adamw.optimizer.rule.choose("adamw");
  // The copies of weights that a fused optimizer writes are made again.
  const Plan copies = small_plan({{"amp.dtype", {"bf16"}}, {"optimizer.fused", {"true"}}});
  const Values plateau = {{"eval.every", {"1"}},
                          {"schedule", {"plateau"}},
                          {"schedule.patience", {"0"}},
                          {"schedule.threshold", {"1"}},
                          {"schedule.factor", {"0.5"}}};
  for (const Plan& plan : {small_plan(), adamw, small_plan(groups), small_plan(kOverflowing),
                           small_plan(plateau), copies}) {
    const std::string whole = run(plan).hash;
    for (const int64_t step : {1, 2, 5, 6, 7, 17, 18})
      EXPECT_EQ(resumed_hash(saved_at(step, plan), plan), whole) << "step " << step;
  }
}

// Checkpoints have torchvision's order, whatever the memory format of the weights.
TEST(Resume, ReadsCheckpointsOfAnotherMemoryFormat) {
  for (const bool from : {false, true}) {
    const SafeTensors saved = saved_at(1, small_resnet(from));
    Session other(small_resnet(!from));
    std::vector<std::string> notes;
    restore(other, saved, notes);
    const NamedTensors again = snapshot(state_tensors(other));
    ASSERT_EQ(again.size(), saved.tensors.size());
    for (size_t i = 0; i < again.size(); ++i) {
      const auto& [name, t] = saved.tensors[i];
      EXPECT_EQ(again[i].name, name);
      EXPECT_TRUE(t.is_contiguous()) << name;
      EXPECT_EQ(std::memcmp(again[i].tensor.bytes(), t.bytes(), t.nbytes()), 0) << name;
    }
  }
}

// Adam's corrections depend on the updates that its moments have seen, in any batch size. The
// schedule has passed 6 of 9 steps, so 8 of 12.
TEST(Resume, ABranchWithOtherBatchesKeepsTheCountOfUpdatesAndThePlaceInTheSchedule) {
  SafeTensors saved = saved_at(9, small_plan());
  Json state = Json::parse(saved.metadata.at("step_state"));
  state["applied"] = state["schedule_index"] = 6;
  state["skipped"] = 3;
  saved.metadata["step_state"] = to_line(state);
  Session branch(small_plan({{"data.batch_size", {"4"}}}));
  std::vector<std::string> notes;
  const Position at = restore(branch, saved, notes, Resume::branch);
  EXPECT_EQ(at.step, 12);
  const StepState now = branch.state->read();
  EXPECT_EQ(now.applied, 6);
  EXPECT_EQ(now.skipped, 3);
  EXPECT_EQ(branch.next_rate(), branch.rates.data<double>()[8]);
}

TEST(Resume, InAnotherPrecisionContinuesAndReportsIt) {
  const SafeTensors saved = saved_at(1, small_plan(kOverflowing));
  Session session(small_plan());
  std::vector<std::string> notes;
  const Position at = restore(session, saved, notes);
  EXPECT_THAT(notes, Contains(HasSubstr("amp: the checkpoint was trained in another")));
  EXPECT_EQ(session.state->read().skipped, 1);
  run(session, {}, at);
  EXPECT_EQ(session.state->read().applied, session.total_steps() - 1);
  EXPECT_EQ(session.state->read().skipped, 1);
}

// Negative control: each part of the state is needed.
TEST(Resume, WithoutAnyPartOfTheStateEndsWithOtherBits) {
  const Plan plan = small_plan();
  const std::string whole = run(plan).hash;
  const SafeTensors saved = saved_at(7, plan);
  ASSERT_EQ(resumed_hash(saved, plan), whole);
  for (const std::string part : {"step", "momentum", "forwards", "schedule_index"}) {
    SafeTensors changed = saved;
    Json position = Json::parse(changed.metadata["position"]);
    Json state = Json::parse(changed.metadata["step_state"]);
    if (part == "step")
      for (const char* count : {"batch", "step"}) position[count] = position[count].get<int>() + 1;
    if (part == "forwards" || part == "schedule_index") state[part] = 0;
    for (NamedTensor& t : changed.tensors)
      if (part == "momentum" && t.name.starts_with("optimizer/"))
        t.tensor = zeros(t.tensor.shape());
    changed.metadata["position"] = position.dump();
    changed.metadata["step_state"] = state.dump();
    EXPECT_NE(resumed_hash(changed, plan), whole) << part;
  }
}

TEST(Resume, RefusesOtherDataAndANewerFormat) {
  const SafeTensors saved = saved_at(1, small_plan());
  std::vector<std::string> notes;
  Session other(small_plan({{"data.train_size", {"47"}}}));
  complaint(Exit::data, [&] { restore(other, saved, notes); });
  SafeTensors newer = saved;
  newer.metadata["version"] = "2";
  EXPECT_THAT(complaint(Exit::checkpoint, [&] { read_plan(newer); }),
              HasSubstr("written by version 2"));
  newer.metadata["version"] = "1";
  newer.metadata["position"] = "{}";
  complaint(Exit::checkpoint, [&] { restore(other, newer, notes); });
}

// Version 0.1 wrote neither the parts of the time nor counts of losses that were not finite.
TEST(Resume, ReadsCheckpointsThatLackTheMembersOfLaterVersions) {
  SafeTensors saved = saved_at(7, small_plan());
  Json position = Json::parse(saved.metadata["position"]);
  for (const char* part : {"load_s", "step_s", "eval_s", "save_s"}) position.erase(part);
  position["window"] = {{"sum", nullptr}, {"count", 1}};
  position["of_epoch"].erase("nonfinite");
  saved.metadata["position"] = position.dump();
  Session session(small_plan());
  std::vector<std::string> notes;
  const Position at = restore(session, saved, notes);
  EXPECT_EQ(at.step, 7);
  EXPECT_EQ(at.load_s + at.step_s + at.eval_s + at.save_s, 0);
  EXPECT_TRUE(std::isnan(at.window.sum));
  position.erase("best");
  saved.metadata["position"] = position.dump();
  complaint(Exit::checkpoint, [&] { restore(session, saved, notes); });
}

// Toggles that are on by default with a GPU are off on a machine without one, where the user cannot
// turn them on.
TEST(Resume, AcceptsOtherTogglesThatKeepTheLosses) {
  Plan gpu = small_plan();
  gpu.data.loader.batch.pin_memory = gpu.data.loader.feed.non_blocking = true;
  const Plan cpu = small_plan({{"optimizer.fused", {"true"}}, {"amp.dtype", {"bf16"}}});
  EXPECT_EQ(compare_plans(gpu, cpu).size(), 4);
  EXPECT_EQ(compare_plans(cpu, gpu).size(), 4);
  Plan other = small_plan();
  other.data.loader.batch.scaled_decode = true;
  EXPECT_THAT(refusal([&] { compare_plans(gpu, other); }), HasSubstr("data.scaled_decode"));
}

// ---- same bits

TEST(Training, DeterministicHasTheSameBitsForAnyNumberOfThreads) {
  Plan plan = small_plan();
  plan.model.model.choose("lenet");
  plan.model.rewrites.values["fuse.conv_act_pool"] = 1;
  plan.kernels.deterministic = plan.kernels.vendor = true;
  plan.train.max_iters = 4;
  const int before = omp_get_max_threads();
  std::set<std::string> hashes;
  for (plan.threads.threads = 1; plan.threads.threads <= 3; ++plan.threads.threads)
    hashes.insert(run(plan).hash);
  EXPECT_EQ(hashes.size(), 1u);
  omp_set_num_threads(before);
}

// ---- 16-bit copies of weights

static const Values kBf16 = {{"amp.dtype", {"bf16"}}};

static Plan with(const Plan& plan, const Values& more) { return load(plan, more); }

TEST(Copies, AFusedOptimizerWritesEndTheRunWithTheSameBits) {
  for (const char* const variant :
       {"train.epochs: 3", "optimizer.name: adamw", "optimizer.clip_norm: 0.1",
        "train.accumulate: 2", "{optimizer.ema_decay: 0.7, eval.every: 1}",
        "kernels.pad_channels: true", "kernels.vendor: true",
        "amp: {dtype: fp16, scaler: {init_scale: 1e7}}"}) {
    SCOPED_TRACE(variant);
    const Plan plain = with(small_plan(kBf16), from_yaml(variant));
    const Ran want = run(plain), got = run(with(plain, {{"optimizer.fused", {"true"}}}));
    EXPECT_EQ(want.losses, got.losses);
    EXPECT_EQ(want.hash, got.hash);
    EXPECT_EQ(want.metrics ? want.metrics->values : Scalars(),
              got.metrics ? got.metrics->values : Scalars());
  }
}

// ---- the dry run

// Batches of varying length take blocks of the longest one.
TEST(DryRun, ServesBatchesOfEveryLengthAndChangesNothing) {
  for (const char* buckets : {"off", "tokens"}) {
    Session session(load(
        Plan{}, from_yaml(cat("device: cpu\nmodel: {name: gpt, width: 16}\nthreads.threads: 1\n"
                              "data: {name: sums, train_size: 200, test_size: 8, batch_size: 8}\n"
                              "allocator.caching: true\neval.metrics: [perplexity]\n"
                              "data.length_buckets: ",
                              buckets, "\n"))));
    session.model->train(true);
    const std::string before = model_hash(session);
    dry_run(session);
    EXPECT_EQ(model_hash(session), before);
    EXPECT_EQ(session.state->read().forwards, 0);
    for (const NamedTensor& p : session.parameters)
      EXPECT_FALSE(grad(p.tensor).defined()) << p.name;
    TrainingStep step(session);
    session.feed->start(0, 0);
    std::set<int64_t> lengths;
    int64_t calls = 0;
    for (Batch batch; session.feed->next(batch); lengths.insert(batch.x.dim(1))) {
      if (lengths.size() == 2) calls = allocator_stats(session.device).system_calls;
      step({batch, 1});
    }
    EXPECT_GT(lengths.size(), 3u);
    EXPECT_EQ(allocator_stats(session.device).system_calls, calls) << buckets;
  }
}

// ---- losses that are not finite

// A model with a NaN in it has no finite loss.
TEST(Nonfinite, StopsAfterMaxNonfiniteConsecutiveLossesWithTheStepInTheMessage) {
  Session session(small_plan({{"train.max_nonfinite", {"3"}}}));
  const auto break_before = [&](int64_t step) {  // not 3, not 6: never three in a row before 9
    const bool broken = step != 3 && step != 6;
    session.parameters.front().tensor.detach().data<float>()[0] = broken ? NAN : 0;
  };
  break_before(1);
  const auto trains = [&] { run(session, [&](const Position& at) { break_before(at.step + 1); }); };
  EXPECT_THAT(complaint(Exit::numeric, trains), StartsWith("step 9: the loss is nan"));
}

TEST(Nonfinite, AnomalyNamesTheOpTheModuleAndTheStep) {
  Session session(small_plan({{"debug.anomaly", {"true"}}}));
  session.parameters.front().tensor.detach().data<float>()[0] = NAN;
  EXPECT_THAT(complaint(Exit::numeric, [&] { run(session); }),
              ContainsRegex("anomaly: [a-z_0-9]+ in module .*step 1$"));
  anomaly().on = false;
}
