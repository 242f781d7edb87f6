// The statistics of `trainer ab` on synthetic times with a known speedup.
#include "core/base/statistics.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <numeric>
#include "core/base/check.h"
#include "core/base/philox.h"

using namespace bellows;

namespace {

using Times = std::vector<double>;

// Simulates a shared machine: speed drifts by 25 % within the run, each block has 3 % of noise, and
// one block in twelve takes four times as long.
struct Machine {
  explicit Machine(uint64_t seed) : rng({.seed = seed}) {}
  double time(double cost, double at) {  // at: position in the run, 0 to 1
    const double wander = 1 + 0.25 * std::sin(6 * at + rng.key0);
    const double noise = std::exp(0.03 * rng.normal(next++));
    const double hit = rng.uniform(1 << 20 | next++) < 1.0 / 12 ? 4 : 1;
    return cost * wander * noise * hit;
  }
  Philox rng;
  uint64_t next = 0;
};

// Time slices A B B A A B B A ..., where arm B runs at `ratio` times the speed of A.
Speedup run_interleaved(uint64_t seed, double ratio, int64_t blocks = 30) {
  Machine machine(seed);
  Times a(blocks), b(blocks);
  for (int64_t i = 0; i < blocks; ++i) {
    const double first = (2 * i) / (2.0 * blocks), second = (2 * i + 1) / (2.0 * blocks);
    a[i] = machine.time(1, i % 2 ? second : first);
    b[i] = machine.time(1 / ratio, i % 2 ? first : second);
  }
  return speedup(a, b, seed);
}

int64_t count_verdicts(Verdict verdict, double ratio) {
  int64_t count = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    count += judge(run_interleaved(1000 + seed, ratio), run_interleaved(seed, 1)) == verdict;
  return count;
}

}  // namespace

TEST(Statistics, QuantilesLieBetweenNeighbors) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10, 20, 30, 40}, 0.25), 10);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.975), 7);
  EXPECT_THROW(median({}), Error);
}

TEST(Statistics, CountsOutliersByTheMedianDeviation) {
  Times times(50);
  std::iota(times.begin(), times.end(), 100);  // MAD 12.5: the limit is 185 from the median
  EXPECT_EQ(count_outliers(times), 0);
  times.back() = 300;
  EXPECT_EQ(count_outliers(times), 0);
  times.back() = 400;
  times.front() = 1e9;
  EXPECT_EQ(count_outliers(times), 2);
}

TEST(Statistics, FindsAKnownRatioThroughNoise) {
  const Speedup measured = run_interleaved(7, 1.25);
  EXPECT_NEAR(measured.ratio, 1.25, 0.03);
  EXPECT_LT(measured.interval.low, 1.25);
  EXPECT_GT(measured.interval.high, 1.25);
  EXPECT_EQ(count_verdicts(Verdict::faster, 1.25), 100);
  EXPECT_EQ(count_verdicts(Verdict::slower, 1 / 1.25), 100);
}

TEST(Statistics, IntervalCoversTheTruthAsOftenAsItSays) {
  int64_t covered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Interval interval = run_interleaved(seed, 1.1).interval;
    covered += interval.low <= 1.1 && 1.1 <= interval.high;
  }
  EXPECT_GE(covered, 200 * 0.92);
  EXPECT_LT(covered, 200);  // an interval that is never wrong is too wide to be one of 95 %
}

TEST(Statistics, TwoEqualArmsShowNoDifference) {
  EXPECT_GE(count_verdicts(Verdict::no_difference, 1), 94);
}

// The machine slows down to half its speed during the measurement. If one arm follows the other, as
// in hyperfine, that drift is a result; if they are interleaved, it is not.
TEST(Statistics, DriftIsNoResultInTurnsAndWouldBeOneWithoutThem) {
  const auto cost = [](double at) { return 1 + at; };
  Times a, b, first_half, second_half;
  for (int i = 0; i < 30; ++i) {
    a.push_back(cost((2 * i + i % 2) / 60.0));
    b.push_back(cost((2 * i + 1 - i % 2) / 60.0));
    first_half.push_back(cost(i / 60.0));
    second_half.push_back(cost((30 + i) / 60.0));
  }
  const Speedup still = {1, {}, 30};  // a placebo without any noise
  EXPECT_EQ(judge(speedup(a, b), still), Verdict::no_difference);
  EXPECT_NEAR(speedup(a, b).ratio, 1, 0.001);
  EXPECT_EQ(judge(speedup(first_half, second_half), still), Verdict::slower);
}

TEST(Statistics, AFifthOfBlocksHitTenfoldMovesNothing) {
  Times off(30, 1.2), on(30, 1.0);
  for (int i = 0; i < 30; i += 5) (i % 2 ? on : off)[i] *= 10;
  const Speedup measured = speedup(off, on);
  EXPECT_NEAR(measured.ratio, 1.2, 1e-9);
  EXPECT_NEAR(measured.interval.high, 1.2, 1e-9);
  EXPECT_EQ(count_outliers(off), 3);
}

TEST(Statistics, APlaceboThatWandersHidesWhatIsSmallerThanItself) {
  const Speedup measured = {1.06, {1.05, 1.07}, 30};
  EXPECT_EQ(judge(measured, {1, {0.99, 1.02}, 30}), Verdict::faster);
  EXPECT_EQ(judge(measured, {1, {0.99, 1.055}, 30}), Verdict::no_difference);
  EXPECT_EQ(judge(measured, {1, {0.94, 1.01}, 30}), Verdict::no_difference);  // either direction
}

TEST(Statistics, LessThanOnePercentIsNeverAResult) {
  EXPECT_EQ(judge({1.008, {1.007, 1.009}, 30}, {1, {1, 1}, 30}), Verdict::no_difference);
}

TEST(Statistics, ConcludesNothingFromFewBlocks) {
  const Times two(4, 2.0), one(4, 1.0), five_two(5, 2.0), five_one(5, 1.0);
  EXPECT_EQ(judge(speedup(two, one), speedup(five_one, five_one)), Verdict::too_few_blocks);
  EXPECT_EQ(judge(speedup(five_two, five_one), speedup(one, one)), Verdict::too_few_blocks);
  EXPECT_EQ(judge(speedup(five_two, five_one), speedup(five_one, five_one)), Verdict::faster);
  EXPECT_THROW(speedup(five_one, one), Error);
}

TEST(Statistics, TheSameSeedGivesTheSameInterval) {
  const Times off = {1, 2, 3, 4, 5, 6, 7}, on = {2, 2, 2, 2, 3, 3, 9};
  EXPECT_EQ(speedup(off, on, 3).interval.low, speedup(off, on, 3).interval.low);
  EXPECT_EQ(speedup(off, on, 3).interval.high, speedup(off, on, 3).interval.high);
}
