// Evaluation: means over the test set, metrics.
#include "trainer/session/evaluate.h"
#include <gmock/gmock.h>
#include <cmath>
#include "tests/refusal.h"
#include "tests/trainer/runs.h"
#include "trainer/state/training_state.h"

using namespace bellows;
using testing::StartsWith;

static Plan evaluated_plan() {
  return load(Plan{}, from_yaml("device: cpu\ndata: {train_size: 8, test_size: 21, batch_size: 8}\n"
                                "model: {name: mlp, hidden: [16]}\n"));
}

TEST(Evaluate, ComputesTheMetricsOfTheListAndTheTermsOfTheLoss) {
  const Plan plan = load(evaluated_plan(), from_yaml(R"(
eval.metrics: [mean_absolute_error, {name: top_k, k: 2}]
loss: {name: sum, terms: [mse, {name: l1, weight: 0.5}]}
ckpt.best: mean_absolute_error
)"));
  Session session(plan);
  const Metrics metrics = evaluate(session);
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.values) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"mean_absolute_error", "accuracy_top2", "loss",
                                             "loss.mse", "loss.l1"}));
  EXPECT_NEAR(metrics.value("loss"), metrics.value("loss.mse") + metrics.value("loss.l1") / 2,
              1e-6);
  EXPECT_NEAR(metrics.value("loss.l1"), metrics.value("mean_absolute_error"), 1e-6);
  EXPECT_FALSE(higher_is_better(plan, "mean_absolute_error"));
  EXPECT_TRUE(higher_is_better(plan, "accuracy_top2"));
}

// A metric of one target per sample beside one that is no mean.
TEST(Evaluate, TakesTheValueOfAMetricFromTheSumsOfAllBatches) {
  Session session(
      load(evaluated_plan(), from_yaml("eval.metrics: [perplexity, accuracy, exact_match]")));
  const Metrics metrics = evaluate(session);
  EXPECT_NEAR(std::log(metrics.value("perplexity")), metrics.value("loss"), 1e-6);
  EXPECT_EQ(metrics.value("exact_match"), metrics.value("accuracy"));
}

TEST(Evaluate, RefusesAMetricThatIsNotInTheListOrNeedsMoreClasses) {
  const auto refusal_of = [](const Values& values) {
    return refusal([&] { Session session(load(evaluated_plan(), values)); });
  };
  EXPECT_EQ(refusal_of({{"target.metric", {"f1"}}}),
            "target.metric: 'f1' is not evaluated; eval.metrics has loss, accuracy, "
            "accuracy_top5");
  EXPECT_THAT(refusal_of({{"ckpt.best", {""}}}), StartsWith("ckpt.best: '' is not evaluated; "));
  EXPECT_THAT(refusal_of({{"schedule", {"plateau"}}, {"schedule.metric", {"accuracy_top3"}}}),
              StartsWith("schedule.metric: 'accuracy_top3' is not evaluated; "));
  EXPECT_EQ(refusal_of({{"eval.metrics.0", {"accuracy"}}, {"eval.metrics.1", {"accuracy"}}}),
            "eval.metrics: accuracy is named twice");
  EXPECT_EQ(refusal_of({{"eval.metrics.0", {"r2"}}}),
            "eval.metrics: r2 needs targets that are values, and those of digits are classes; "
            "use  eval.metrics: [accuracy]");
}
