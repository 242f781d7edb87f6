// The statistics of `trainer ab` on synthetic times with a known speedup.
#include "core/base/statistics.h"
#include <cmath>
#include <numeric>
#include "core/base/check.h"
#include "core/base/philox.h"
#include "tests/matchers.h"

using namespace bellows;

namespace {

using Times = std::vector<double>;

// Simulates a shared machine: speed drifts by 25 % during the comparison, each process is faster or
// slower by `luck`, each block has 3 % of noise, and one block in twelve takes four times as long.
struct Machine {
  Machine(uint64_t seed, double luck) : rng({.seed = seed}), luck(luck) {}
  double process() { return std::exp(luck * rng.normal(next++)); }
  double block(double cost, double at) {  // at: position in the comparison, 0 to 1
    const double wander = 1 + 0.25 * std::sin(6 * at + rng.key0);
    const double noise = std::exp(0.03 * rng.normal(next++));
    const double hit = rng.uniform(1 << 20 | next++) < 1.0 / 12 ? 4 : 1;
    return cost * wander * noise * hit;
  }
  Philox rng;
  double luck;
  uint64_t next = 0;
};

constexpr double kLuck = 0.03;

// Rounds of time slices A B B A A B B A ..., where arm B runs at `ratio` times the speed of A.
LogRatios run_interleaved(uint64_t seed, double ratio, double luck = kLuck, int64_t rounds = 10,
                          int64_t blocks = 8) {
  Machine machine(seed, luck);
  LogRatios ratios;
  for (int64_t round = 0; round < rounds; ++round) {
    const double a = machine.process(), b = machine.process() / ratio;
    Times& logs = ratios.emplace_back();
    for (int64_t i = 0; i < blocks; ++i) {
      const double slice = 1.0 / (2 * blocks * rounds);
      const double first = (2 * (round * blocks + i)) * slice, second = first + slice;
      logs.push_back(std::log(machine.block(a, i % 2 ? second : first) /
                              machine.block(b, i % 2 ? first : second)));
    }
  }
  return ratios;
}

LogRatios first_rounds(const LogRatios& all, int64_t rounds) {
  return {all.begin(), all.begin() + rounds};
}

bool covers(const Interval& interval, double ratio) {
  return interval.low <= ratio && ratio <= interval.high;
}

constexpr int64_t kSimulations = 500;

int64_t count_verdicts(Verdict verdict, double ratio) {
  int64_t count = 0;
  for (uint64_t seed = 0; seed < kSimulations; ++seed)
    count += judge(speedup(run_interleaved(10'000 + seed, ratio)),
                   speedup(run_interleaved(seed, 1))) == verdict;
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

// The values are those of printed tables.
TEST(Statistics, StudentsTIsTheTabulatedOne) {
  EXPECT_NEAR(student_t(0.05, 1), 12.706, 0.01);
  EXPECT_NEAR(student_t(0.05, 4), 2.776, 0.002);
  EXPECT_NEAR(student_t(0.01, 2), 9.925, 0.01);
  EXPECT_NEAR(student_t(0.001, 9), 4.781, 0.005);
  EXPECT_NEAR(student_t(0.05, 1000), 1.962, 0.002);
}

// ---- one look

TEST(Statistics, FindsAKnownRatioThroughNoiseAndLuck) {
  const Speedup measured = speedup(run_interleaved(7, 1.25));
  EXPECT_NEAR(measured.ratio, 1.25, 0.05);
  EXPECT_TRUE(covers(measured.interval, 1.25));
  EXPECT_GE(count_verdicts(Verdict::faster, 1.25), kSimulations * 0.97);
  EXPECT_GE(count_verdicts(Verdict::slower, 1 / 1.25), kSimulations * 0.97);
  EXPECT_GE(count_verdicts(Verdict::no_difference, 1), kSimulations * 0.97);
}

TEST(Statistics, IntervalCoversTheTruthAsOftenAsItSaysWhateverTheLuckOfProcesses) {
  for (const double luck : {0.0, 0.01, 0.06})
    for (const int64_t rounds : {3, 5, 10}) {
      int64_t missed = 0;
      for (uint64_t seed = 0; seed < kSimulations; ++seed)
        missed += !covers(speedup(run_interleaved(seed, 1.1, luck, rounds)).interval, 1.1);
      EXPECT_LE(missed, kSimulations * 0.065) << luck << " " << rounds;
      EXPECT_GE(missed, kSimulations * 0.01) << luck << " " << rounds;  // else it is too wide
    }
}

TEST(Statistics, TellsTheLuckOfProcessesFromNoiseOfBlocks) {
  EXPECT_LT(speedup(run_interleaved(3, 1, 0, 40)).between, 0.4);
  EXPECT_GT(speedup(run_interleaved(3, 1, 0.06, 40)).between, 0.9);
  EXPECT_EQ(speedup({{0.1, 0.1}, {0.1, 0.1}}).between, 0);
  EXPECT_TRUE(std::isnan(speedup({{0.1}, {0.2}, {0.3}}).between)) << "one block a round";
}

TEST(Statistics, AFifthOfBlocksHitTenfoldMovesNothing) {
  LogRatios ratios(4, Times(10, std::log(1.2)));
  for (Times& round : ratios) round[3] += std::log(10), round[7] -= std::log(10);
  EXPECT_NEAR(speedup(ratios).ratio, 1.2, 1e-9);
  EXPECT_NEAR(speedup(ratios).interval.high, 1.2, 1e-9);
}

// ---- the verdict

TEST(Statistics, APlaceboThatWandersHidesWhatIsSmallerThanItself) {
  const Speedup measured = {.ratio = 1.06, .interval = {1.05, 1.07}, .rounds = 5};
  EXPECT_EQ(judge(measured, {.ratio = 1.02, .rounds = 5}), Verdict::faster);
  EXPECT_EQ(judge(measured, {.ratio = 1.055, .rounds = 5}), Verdict::no_difference);
  EXPECT_EQ(judge(measured, {.ratio = 0.94, .rounds = 5}), Verdict::no_difference);  // either way
  // Less than one percent is never a result.
  EXPECT_EQ(judge({.ratio = 1.008, .interval = {1.007, 1.009}, .rounds = 5}, {.rounds = 5}),
            Verdict::no_difference);
}

TEST(Statistics, ConcludesNothingFromFewRounds) {
  const Times twice(8, std::log(2)), same(8, 0.0);
  EXPECT_EQ(judge(speedup({twice, twice}), speedup({same, same})), Verdict::too_few_rounds);
  EXPECT_EQ(judge(speedup({twice, twice, twice}), speedup({same, same, same})), Verdict::faster);
  EXPECT_FALSE(std::isfinite(speedup({twice}).interval.high));
  EXPECT_EQ(speedup({twice}).interval.low, 0);
  EXPECT_THROW(speedup({}), Error);
}

// ---- several looks

TEST(Looks, SpendFivePercentInAll) {
  for (const int64_t rounds : {3, 4, 7, 12, 40}) {
    const std::vector<Look> looks = looks_for(rounds);
    double error = 0;
    for (const Look& look : looks) error += look.error;
    EXPECT_NEAR(error, 0.05, 1e-12);
    EXPECT_EQ(looks.back().rounds, rounds);
    EXPECT_GE(looks.front().rounds, kFewestRounds);
  }
  EXPECT_EQ(looks_for(12).size(), 3);
  EXPECT_GT(looks_for(12).back().error, 0.04);
  EXPECT_EQ(looks_for(3).size(), 1);
}

namespace {
struct Sequence {
  int64_t found = 0, rounds = 0;
};
// Ends at the first look whose interval excludes 1. `error_of` returns the error of a look.
template <class ErrorOf> Sequence run_sequences(double ratio, const ErrorOf& error_of) {
  Sequence all;
  for (uint64_t seed = 0; seed < kSimulations; ++seed) {
    const LogRatios ratios = run_interleaved(seed, ratio, kLuck, 12);
    for (const Look& look : looks_for(12)) {
      const auto s = speedup(first_rounds(ratios, look.rounds), error_of(look));
      const bool found = !covers(s.interval, 1);
      if (!found && look.rounds < 12) continue;
      all.found += found;
      all.rounds += look.rounds;
      break;
    }
  }
  return all;
}
}  // namespace

// With 95 % at each look, more than one in twenty would find a difference between equal arms.
TEST(Looks, KeepTheErrorRateAndEndEarlyWhereTheAnswerIsClear) {
  const auto spent = [](const Look& look) { return look.error; };
  EXPECT_LE(run_sequences(1, spent).found, kSimulations * 0.06);
  EXPECT_GE(run_sequences(1, [](const Look&) { return 0.05; }).found, kSimulations * 0.08);
  const Sequence clear = run_sequences(1.5, spent);
  EXPECT_EQ(clear.found, kSimulations);
  EXPECT_LT(clear.rounds, kSimulations * 7);
}
