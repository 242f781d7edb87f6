// The average of a model in a run: updated with each update, saved in checkpoints. Also groups of
// parameters in a plan.
#include <gtest/gtest.h>
#include "tests/optim/trained.h"
#include "tests/trainer/runs.h"
#include "trainer/state/training_state.h"

using namespace bellows;

namespace {

// Six updates per epoch, for a model that also has a buffer.
Plan normed_plan(const Values& more) {
  return plan_of(from_yaml(R"(
device: cpu
data: {train_size: 48, test_size: 20, batch_size: 8}
model.name: layers
model.layers: [flatten, {name: linear, out: 16}, batch_norm, {name: linear, out: 10}]
train.epochs: 2
eval.every: 0
)"),
                 more);
}

NamedTensors values_of(const Session& session) {
  NamedTensors all = session.parameters;
  for (const NamedTensor& buffer : session.model->buffers()) all.push_back(buffer);
  return snapshot(all);
}

}  // namespace

// Also the buffers. Updates that are skipped are in skipped_test.cpp.
TEST(Average, FollowsEachUpdateOfALoop) {
  constexpr float kDecay = 0.75;
  Session session(normed_plan({{"optimizer.ema_decay", {"0.75"}}}));
  NamedTensors wanted = values_of(session);
  run(session, [&](const Position&) {
    const NamedTensors now = values_of(session);
    for (size_t i = 0; i < now.size(); ++i)
      if (now[i].tensor.dtype() == DType::f32)
        for (int64_t k = 0; k < now[i].tensor.numel(); ++k) {
          float& a = wanted[i].tensor.data<float>()[k];
          a = kDecay * a + (1 - kDecay) * now[i].tensor.data<float>()[k];
        }
  });
  const NamedTensors got = session.ema->state(), last = values_of(session);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, "ema/" + wanted[i].name);
    if (got[i].tensor.dtype() != DType::f32)  // num_batches_tracked
      EXPECT_TRUE(same_bits(got[i].tensor, last[i].tensor)) << got[i].name;
    else
      for (int64_t k = 0; k < got[i].tensor.numel(); ++k)
        EXPECT_NEAR(got[i].tensor.data<float>()[k], wanted[i].tensor.data<float>()[k], 1e-5)
            << got[i].name;
  }
}

TEST(Average, ContinuesAfterAResumeWithTheSameBits) {
  const Plan plan = normed_plan({{"optimizer.ema_decay", {"0.9"}}});
  Session whole(plan), resumed(plan);
  run(whole);
  EXPECT_EQ(resume(resumed, saved_at(5, plan)).losses.size(), 7u);
  const NamedTensors a = whole.ema->state(), b = resumed.ema->state();
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name;
}

// eval and predict load the average as the model, also into a plan with an average of its own,
// which starts as the model.
TEST(Average, IsTheModelThatIsLoaded) {
  const Plan plan = normed_plan({{"optimizer.ema_decay", {"0.5"}}});
  Session trained(plan), loaded(plan);
  run(trained);
  restore_model(loaded, {snapshot(state_tensors(trained)), {}});
  EXPECT_EQ(evaluate(loaded).value("loss"), evaluate(trained).value("loss"));
}

// A branch may turn the average on, which then starts from the weights, or off.
TEST(Average, OfABranchStartsFromTheWeights) {
  const Plan without = normed_plan({}), with = normed_plan({{"optimizer.ema_decay", {"0.9"}}});
  std::vector<std::string> notes;
  Session on(with), off(without);
  const SafeTensors saved = saved_at(5, without);
  restore(on, saved, notes, Resume::branch);
  ASSERT_EQ(on.ema->state().size(), saved.tensors.size());
  for (const NamedTensor& t : on.ema->state())
    EXPECT_TRUE(same_bits(t.tensor, by_name(saved.tensors).at(t.name.substr(4)))) << t.name;
  restore(off, saved_at(5, with), notes, Resume::branch);
}

TEST(Average, ThatCannotSettleWithinTheRunIsWarnedOf) {
  const auto warning = [](const char* decay) {
    const Session session(normed_plan({{"optimizer.ema_decay", {decay}}}));
    std::string found;
    for (const std::string& note : session.notes)
      if (note.starts_with("warning: optimizer.ema_decay")) found = note;
    return found;
  };
  EXPECT_EQ(warning("0.999"),
            "warning: optimizer.ema_decay: after 12 updates, 99 % of the average are still the "
            "first weights; use at most 0.681");
  EXPECT_EQ(warning("0.7"), "");
  EXPECT_EQ(warning("0"), "");
}

// Training normalizes with the running statistics, which nothing changes.
TEST(Groups, OfAPlanFreezeTheStatisticsOfTheirNormsIfAsked) {
  for (const char* frozen : {"true", "false"}) {
    Session session(normed_plan(from_yaml(
        cat("optimizer.groups: [{parameters: norms, name: sgd, lr: 0, freeze_statistics: ", frozen,
            "}]"))));
    const std::string members = "optimizer.groups: norms: 2 parameters: 2.weight, 2.bias";
    EXPECT_EQ(std::ranges::count(session.notes, members), 1);
    const NamedTensors before = values_of(session);
    run(session);
    const NamedTensors after = values_of(session);
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string& name = before[i].name;
      const bool stays = name == "2.weight" || name == "2.bias";
      const bool statistic = name.starts_with("2.running") || name.starts_with("2.num");
      EXPECT_EQ(same_bits(before[i].tensor, after[i].tensor),
                stays || (statistic && frozen == std::string("true")))
          << name;
    }
  }
}
