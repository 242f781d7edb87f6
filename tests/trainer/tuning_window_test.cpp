// Autotuning in a run: it searches inside its window only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/base/trace.h"
#include "core/config/config.h"
#include "tests/moved.h"
#include "tests/refusal.h"
#include "tests/trainer/runs.h"
#include "trainer/session/windows.h"

using namespace bellows;

static Plan plan_with(const Values& more) {
  return plan_of(from_yaml(R"(
data: {train_size: 60, test_size: 20, batch_size: 8}
train.max_iters: 6
log.every: 1
eval.every: 0
threads.threads: 1
kernels.autotune: benchmark
)"),
                 more);
}

TEST(Windows, RefuseListsThatAreNoWindow) {
  const auto refused_as = [](const std::string& list) {
    return refusal([&] { load(Plan{}, parse_overrides({list})); });
  };
  for (const char* window : {"[]", "[3]", "[4, 3]", "[1, 2, 3]"})
    EXPECT_EQ(
        refused_as(cat("train.tuning_window=", window)),
        "command line: train.tuning_window must be the first and the last update, as in [1, 10]");
  for (const char* window : {"[3]", "[4, 4]", "[1, 2, 3]"})
    EXPECT_EQ(refused_as(cat("profile.window=", window)),
              "command line: profile.window must be the first update and the one after the last, "
              "as in [20, 30]");
}

// LeNet has two convolutions; the first needs no gradient of its images: five problems. The last
// batch of an epoch is smaller and comes after the window.
TEST(TuningWindow, SearchesEachProblemOnceAndLeavesLaterShapesToTheHeuristic) {
  Session session(plan_with(
      from_yaml("data.batch_size: 9\ntrain: {max_iters: 9, epochs: 2, tuning_window: [2, 4]}\n")));
  const Moved searches("autotune.searches"), misses("autotune.misses");
  std::vector<int64_t> searched, missed;  // so far, after each update
  run(session, [&](const Position&) {
    searched.push_back(searches);
    missed.push_back(misses);
  });
  EXPECT_THAT(searched, testing::ElementsAre(0, 5, 5, 5, 5, 5, 5, 5, 5));
  EXPECT_THAT(missed, testing::ElementsAre(0, 0, 0, 0, 0, 0, 5, 5, 5));
}

TEST(TuningWindow, ReportsItsResultsOnce) {
  const Plan plan = plan_with({{"train.tuning_window.0", {"1"}}, {"train.tuning_window.1", {"2"}}});
  TuningWindow window(plan.train, plan.kernels);
  trace::counter("autotune.searches").add(1);
  trace::counter("autotune.search_us").add(1'234'000);
  trace::counter("autotune.repeated").add(2);
  trace::counter("autotune.hits").add(3);
  const Scalars scalars = window.take();
  EXPECT_EQ(scalars, (Scalars{{"autotune_searches", 1}, {"autotune_hit_rate", .75}}));
  window.end_update();
  EXPECT_EQ(window.report(), "");
  window.end_update();
  EXPECT_EQ(window.report(),
            "autotune: 1 searches in 1.2 s, 2 repeated problems, 0 found on disk, hit rate 75.0 %");
  EXPECT_EQ(window.report(), "") << "once";
}
