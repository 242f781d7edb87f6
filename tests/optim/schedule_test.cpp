// Schedules at their key points and against values from PyTorch 2.15.0.
#include "optim/schedule.h"
#include <gtest/gtest.h>
#include <cmath>
#include "core/base/check.h"
#include "core/config/values.h"

using namespace bellows;

static std::vector<double> rates(const ScheduleOptions& options, int64_t updates,
                                 int64_t per_epoch = 1, double peak = 1) {
  const Tensor table = lr_table(options, peak, updates, per_epoch);
  const auto values = table.data<double>();
  return {values.begin(), values.end()};
}

static ScheduleOptions named(const char* name) {
  ScheduleOptions options;
  options.curve.choose(name);
  return options;
}

static void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12) << i;
}

TEST(Schedule, StepDropsAfterWholeEpochs) {
  ScheduleOptions options = named("step");
  std::vector<double> factors = rates(options, 2 * 61, 2);
  EXPECT_EQ(factors[59], 1);  // the last update of epoch 30
  EXPECT_NEAR(factors[60], 0.1, 1e-15);
  EXPECT_NEAR(factors[120], 0.01, 1e-15);
}

TEST(Schedule, FollowsPyTorchAndItsFormulas) {
  ScheduleOptions sequence = named("cosine"), linear = named("linear");
  linear.warmup_updates = sequence.warmup_updates = 2;
  sequence.warmup_epochs = 1;
  sequence.warmup_from = 0.2;
  expect_near(rates(named("constant"), 3, 1, 0.25), {0.25, 0.25, 0.25});
  expect_near(rates(named("cosine"), 6),
              {1, 0.9330127018922194, 0.75, 0.5, 0.2500000000000001, 0.06698729810778065});
  expect_near(rates(sequence, 10, 2),
              {0.2, 0.4, 0.6, 0.8, 1, 0.9330127018922194, 0.75, 0.5, 0.25, 0.06698729810778065});
  expect_near(rates(linear, 6, 2), {.01, .505, 1, .75, .5, .25});
  expect_near(rates(named("one_cycle"), 10),
              {0.04, 0.52, 1, 0.9504846320134737, 0.8117456539497631, 0.6112620219362893,
               0.38874197806371075, 0.18825834605023697, 0.049519367986526286, 4e-06});
}

TEST(Schedule, PlateauFollowsPyTorchsReduceLROnPlateau) {
  ScheduleOptions options = load(ScheduleOptions{}, {{"name", {"plateau"}},
                                                     {"factor", {"0.5"}},
                                                     {"patience", {"1"}},
                                                     {"threshold", {"0.001"}},
                                                     {"min_lr", {"0.15"}}});
  const std::vector<double> losses = {1,   0.9,     0.95, 0.9, 0.8999, 0.85, 0.86, 0.87,
                                      0.9, 0.84995, 0.84, 0.9, 0.9,    0.9,  0.9};
  RateState state;
  std::vector<double> after;
  for (const double loss : losses) {
    const Curve curve = options.curve.make(Horizon{});
    EXPECT_EQ(curve.metric, "loss");
    curve.react(state, {loss, false});
    after.push_back(lr_table(options, 0.8, 1, 1, state.factor).item());
  }
  expect_near(after,
              {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.15, 0.15, 0.15, 0.15, 0.15, 0.15});
}

TEST(Schedule, PlateauOfAnAccuracyWaitsForAHigherOneAndNaNIsNoImprovement) {
  const ScheduleOptions options = load(
      ScheduleOptions{}, {{"name", {"plateau"}}, {"metric", {"accuracy"}}, {"patience", {"0"}}});
  RateState state;
  const auto after = [&](double accuracy) {
    options.curve.make(Horizon{}).react(state, {accuracy, true});
    return state.factor;
  };
  EXPECT_EQ(after(NAN), 0.1);
  EXPECT_EQ(after(0.5), 0.1);
  EXPECT_EQ(after(0.6), 0.1);
  EXPECT_EQ(after(NAN), 0.1 * 0.1);
  EXPECT_EQ(after(0.6), 0.1 * 0.1 * 0.1);
}

// Some of the runs end within their warm-up.
TEST(Schedule, EveryCurveIsFiniteOnTheShortestRuns) {
  for (const std::string& name : Choice<MakeCurve>::names())
    for (const int64_t warmup : {0, 4})
      for (int64_t updates = 1; updates < 8; ++updates) {
        ScheduleOptions options = named(name.c_str());
        options.warmup_updates = warmup;
        for (const double lr : rates(options, updates)) {
          EXPECT_GE(lr, 0) << name << updates;
          EXPECT_LE(lr, 1) << name << updates;
        }
      }
}

TEST(Schedule, RefusesARunOfNothing) { EXPECT_THROW(lr_table({}, 1, 0, 1), Error); }
