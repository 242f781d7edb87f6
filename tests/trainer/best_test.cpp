// Reactions to evaluations: the best checkpoint, early stopping, the plateau schedule.
#include <fmt/format.h>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include "core/tensor/safetensors.h"
#include "tests/trainer/program.h"
#include "tests/trainer/runs.h"
#include "trainer/run/loop_parts.h"

using namespace bellows;

// Two updates per epoch and an evaluation after each epoch. The rate is so high that the loss
// oscillates.
static Plan restless(const Values& more = {}) {
  return plan_of(from_yaml(R"(
data: {train_size: 32, test_size: 20, batch_size: 16}
model: {name: mlp, hidden: [8]}
optimizer: {lr: 2, momentum: 0.9}
train.epochs: 8
)"),
                 more);
}

// ---- plateau

static const Values kPlateau = {
    {"schedule.name", {"plateau"}}, {"schedule.patience", {"0"}}, {"schedule.factor", {"0.5"}}};

static Plan on_plateau(const Values& more = {}) {
  Values values = more;
  values.insert(kPlateau.begin(), kPlateau.end());
  return restless(values);
}

// Rate of each update of a run.
static std::vector<double> rates_of(const Plan& plan) {
  Session session(plan);
  std::vector<double> rates;
  run(session, [&](const Position&) { rates.push_back(session.last_rate()); });
  return rates;
}

TEST(PlateauSchedule, LowersTheRateOfLaterUpdatesAfterAnEvaluation) {
  // A threshold of 1 means that no loss is an improvement, so each evaluation after the first
  // lowers it.
  EXPECT_EQ(
      rates_of(on_plateau(
          {{"schedule.threshold", {"1"}}, {"schedule.min_lr", {"0.3"}}, {"train.epochs", {"6"}}})),
      (std::vector<double>{2, 2, 2, 2, 1, 1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3}));
}

// With a rate of 0 no weight changes any more.
TEST(PlateauSchedule, LowersTheRatesOfGroups) {
  Session session(on_plateau({{"optimizer.groups.0.parameters", {"*.weight"}},
                              {"optimizer.groups.0.name", {"sgd"}},
                              {"schedule.threshold", {"1"}},
                              {"schedule.factor", {"0"}}}));
  std::string at_drop, before;
  const Ran ran = run(session, [&](const Position& at) {
    if (at.step == 3) before = model_hash(session);
    if (at.step == 4) at_drop = model_hash(session);
  });
  EXPECT_EQ(ran.hash, at_drop);
  EXPECT_NE(before, at_drop);
}

// Another loss may never reach the best value of the earlier one.
TEST(PlateauSchedule, OfABranchKeepsItsRateAndForgetsTheBestLoss) {
  const SafeTensors saved = saved_at(14, on_plateau());
  Session branch(on_plateau());
  std::vector<std::string> notes;
  restore(branch, saved, notes, Resume::branch);
  EXPECT_LT(branch.rate_state().factor, 1);
  EXPECT_EQ(branch.rate_state(), RateState{.factor = branch.rate_state().factor});
}

TEST(PlateauSchedule, ContinuesAsALongerRunWould) {
  const auto plan = [](const char* epochs) {
    return on_plateau({{"train.epochs", {epochs}}, {"eval.every", {"2"}}});
  };
  Session shorter(plan("5"));
  const Ran ran = run(shorter);  // also evaluated at its end, unlike the longer run
  const SafeTensors saved{snapshot(state_tensors(shorter)), state_metadata(shorter, ran.at)};
  Session longer(plan("8"));
  EXPECT_EQ(resume(longer, saved).hash, run(plan("8")).hash);
}

// ---- patience

// A run of 8 epochs evaluates after 3, 6 and 8, one of 5 also after 5.
TEST(Patience, DoesNotCountTheEvaluationAtTheEndOfAShorterRun) {
  const auto still = [](const char* epochs) {
    return restless({{"optimizer.lr", {"0"}},
                     {"train.patience", {"1"}},
                     {"eval.every", {"3"}},
                     {"train.epochs", {epochs}}});
  };
  Session shorter(still("5")), longer(still("8"));
  Position at = run(shorter).at;
  EXPECT_EQ(at.best.step, 6) << "all losses are equal";
  EXPECT_EQ(at.best.evaluations_since, 0);
  EXPECT_EQ(run(longer, {}, at).at.epoch, 6);
  at.best.regular = at.best.value + 1;  // as if only the loss after 3 had been higher
  EXPECT_EQ(run(longer, {}, at).at.epoch, 8);
}

TEST(Patience, WatchesTheMetricOfTheBestCheckpointWhichNoNanImproves) {
  EXPECT_EQ(best_metric(restless()), "loss");
  EXPECT_EQ(best_metric(restless({{"ckpt.best", {"accuracy"}}})), "accuracy");
  EXPECT_TRUE(improves(false, 1, 2) && improves(true, 2, 1));
  for (const bool higher : {false, true}) {
    EXPECT_FALSE(improves(higher, 1, 1));
    EXPECT_FALSE(improves(higher, NAN, higher ? -INFINITY : INFINITY));
  }
}

// ---- through the program

class BestOfARun : public Program {
 protected:
  // Step and loss of the evaluation with the lowest loss.
  std::pair<int64_t, double> lowest(const std::string& run) const {
    std::pair<int64_t, double> best{-1, INFINITY};
    for (const Json& row : rows(run, "test"))
      if (row["loss"].get<double>() < best.second)
        best = {row["step"].get<int64_t>(), row["loss"].get<double>()};
    return best;
  }
  int64_t step_of_best(const std::string& run) const {
    const auto saved = read_safetensors(folder_ / run / "checkpoints/best.safetensors");
    return Json::parse(saved.metadata.at("position"))["step"].get<int64_t>();
  }
  // A loss that is lowest somewhere in the middle.
  static Args up_and_down(const Args& more) {
    return with(tiny({"optimizer={lr: 3, momentum: 0.9}", "train.epochs=8",
                      "ckpt={best: loss, keep: 1}", "log={every: 2, tensorboard: false}"}),
                more);
  }
};

TEST_F(BestOfARun, IsKeptBeyondTheNewestAndTakenByEvalAndExport) {
  const std::string out = succeed(up_and_down({}));
  const auto [step, loss] = lowest("runs/run");
  ASSERT_LT(step, 32) << "the test needs a loss that rises at the end";
  EXPECT_THAT(checkpoints(), ElementsAre("best.safetensors", "step_00000032.safetensors"));
  EXPECT_EQ(step_of_best("runs/run"), step);
  EXPECT_THAT(out, HasSubstr(cat("best: loss: ", fmt::format("{:.4f}", loss))));
  const std::string file = "runs/run/checkpoints/best.safetensors";
  EXPECT_THAT(run({"eval", file}).out, HasSubstr(fmt::format("loss: {:.4f}", loss)));
  succeed({"export", file, "best_export.safetensors"});
  EXPECT_THAT(succeed({"train", "--resume", file, "--run-dir", "b", "optimizer.lr=0.01"}),
              HasSubstr(cat("best.safetensors, step ", step, ", ")));
}

TEST_F(BestOfARun, SurvivesKillAndResume) {
  run(up_and_down({}));
  const auto [step, loss] = lowest("runs/run");
  run_until("eval: epoch: 6", SIGKILL, up_and_down({"data.sim_latency_us=20000"}));
  succeed(up_and_down({"--resume"}));
  EXPECT_EQ(lowest("runs/run-2"), std::pair(step, loss));
  EXPECT_EQ(step_of_best("runs/run-2"), step);
}

TEST_F(BestOfARun, EarlyStoppingIsReportedAtTheEndAndByResume) {
  const Args args = tiny({"optimizer={lr: 0}", "train.epochs=9", "train.patience=2"});
  const Ended ended = run(args);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("\nstopped early: 2 evaluations without improvement "
                                         "(train.patience); best: loss: "),
                               HasSubstr(", epoch: 1, step: 4\n"), HasSubstr("3 epochs")));
  EXPECT_THAT(checkpoints(), Not(Contains("best.safetensors")));
  EXPECT_THAT(run({"train", "--resume", "runs/run"}).out, HasSubstr("nothing to do"));
  EXPECT_THAT(run({"train", "--resume", "runs/run", "train.patience=3"}).out,
              HasSubstr("4 epochs"));
}
