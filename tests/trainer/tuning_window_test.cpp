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

static Plan tuned_plan(const Values& more) {
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

// LeNet has two convolutions; the first needs no gradient of its images: five problems. The last
// batch of an epoch is smaller and comes after the window.
TEST(TuningWindow, SearchesEachProblemOnceAndLeavesLaterShapesToTheHeuristic) {
  Session session(tuned_plan(
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
