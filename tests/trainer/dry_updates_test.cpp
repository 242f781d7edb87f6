// train.dry_updates: a run is as if they had not run.
#include <gtest/gtest.h>
#include "core/base/trace.h"
#include "tests/trainer/runs.h"

using namespace bellows;

namespace {

// Two epochs of six updates, with all that an update may change. An mlp with dropout, if `more`
// names no model.
Plan small_plan(Values more) {
  if (!more.contains("model"))
    more.merge(Values{{"model", {"mlp"}}, {"model.hidden.0", {"16"}}, {"model.dropout", {"0.3"}}});
  return plan_of({{"data.train_size", {"44"}},  // a partial batch at the end
                  {"data.test_size", {"12"}},
                  {"data.batch_size", {"8"}},
                  {"data.transforms.0.name", {"random_flip"}},
                  {"schedule", {"cosine"}},
                  {"train.epochs", {"2"}}},
                 more);
}

void expect_same(const Ran& want, const Ran& got) {
  EXPECT_EQ(want.losses, got.losses);
  EXPECT_EQ(want.hash, got.hash);
  EXPECT_EQ(want.metrics->values, got.metrics->values);
  EXPECT_EQ(want.state.forwards, got.state.forwards);
  EXPECT_EQ(want.state.applied, got.state.applied);
  EXPECT_EQ(want.state.skipped, got.state.skipped);
  EXPECT_EQ(want.state.loss_scale, got.state.loss_scale);
}

const Values kNormed = {{"model", {"resnet18"}}, {"model.width", {"2"}}};

}  // namespace

TEST(DryUpdates, LeaveNoTraceInARun) {
  const std::pair<const char*, Values> variants[] = {
      {"momentum", {{"optimizer.momentum", {"0.9"}}}},
      {"adamw, averages", {{"optimizer.name", {"adamw"}}, {"optimizer.ema_decay", {"0.7"}}}},
      {"muon",
       {{"optimizer.groups.0.parameters", {"*.weight"}}, {"optimizer.groups.0.name", {"muon"}}}},
      {"micro-batches", {{"train.accumulate", {"2"}}}},
      {"copies", {{"amp.dtype", {"bf16"}}, {"optimizer.fused", {"true"}}}},
      {"overflows", {{"amp.dtype", {"fp16"}}, {"amp.scaler.init_scale", {"1e7"}}}},
      {"running statistics", kNormed},
      {"growing images",
       {{"data.transforms.0.name", {"progressive_resize"}},
        {"data.transforms.0.from", {"20"}},
        {"data.transforms.0.to", {"24"}},
        {"data.transforms.0.step", {"4"}},
        {"model", {"resnet18"}},
        {"model.width", {"2"}}}},
  };
  for (const auto& [name, values] : variants) {
    SCOPED_TRACE(name);
    Plan plan = small_plan(values);
    const Ran want = run(plan);
    plan.train.dry_updates = 3;
    expect_same(want, run(plan));
  }
}

TEST(DryUpdates, AreRunBeforeTheClockStarts) {
  const trace::Counter& updates = trace::counter("update.dry");
  const int64_t before = updates.value();
  const Ran ran = run(small_plan({{"train.dry_updates", {"2"}}}));
  EXPECT_EQ(updates.value() - before, 2);
  EXPECT_GT(ran.meter.seconds(Phase::dry), 0);
  double phases = 0;
  for (const Phase phase : {Phase::load, Phase::step, Phase::eval, Phase::save, Phase::other})
    phases += ran.meter.seconds(phase);
  EXPECT_NEAR(ran.meter.total_seconds(), phases, 1e-6);
}

TEST(DryUpdates, OfAResumedRunLeaveNoTraceEither) {
  Plan plan = small_plan({{"optimizer.momentum", {"0.9"}}});
  const std::string want = run(plan).hash;
  const SafeTensors saved = saved_at(7, plan);
  plan.train.dry_updates = 3;
  Session session(plan);
  EXPECT_EQ(resume(session, saved).hash, want);
}

// The third one captures, so all updates of the run are replays.
TEST(DryUpdatesOnDevice, CaptureTheUpdate) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  const trace::Counter &captures = trace::counter("graph.captures"),
                       &replays = trace::counter("graph.replays");
  for (const char* const dtype : {"off", "bf16"}) {
    SCOPED_TRACE(dtype);
    Plan plan = small_plan({{"device", {"cuda"}},
                            {"data.drop_last", {"true"}},
                            {"amp.dtype", {dtype}},
                            {"optimizer.fused", {"true"}},
                            {"allocator.caching", {"true"}}});
    const Ran want = run(plan);
    plan.train.cuda_graph = true, plan.train.dry_updates = 3;
    const int64_t captured = captures.value(), replayed = replays.value();
    expect_same(want, run(plan));
    EXPECT_EQ(captures.value() - captured, 1);
    EXPECT_EQ(replays.value() - replayed, 1 + 2 * 5);
  }
}
