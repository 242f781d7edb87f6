// Statistics of measured times: the speedup between two arms with its confidence interval, compared
// with the speedup that the same protocol measures for two equal arms (a placebo).
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

// Named values of one time step, for metrics.jsonl and TensorBoard.
using Scalars = std::vector<std::pair<std::string, double>>;

// Returns x, with a NaN's sign removed: x86 makes negative NaNs, which print as "-nan".
inline double unsigned_nan(double x) {
  return x == x ? x : std::numeric_limits<double>::quiet_NaN();
}

double quantile(std::vector<double> values, double share);  // share: 0 to 1; interpolated
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }
double mean(const std::vector<double>& values);  // 0 if `values` is empty
std::vector<double> distances_from_median(const std::vector<double>& values);

// Returns how many values are further from the median than 10 x 1.4826 median absolute deviations,
// as in hyperfine. Outliers are reported, not dropped: medians tolerate them, and they show how
// noisy the machine was.
int64_t count_outliers(const std::vector<double>& values);

struct Interval {
  double low = 1, high = 1;
};

// Ratios of an interleaved comparison, as natural logarithms: ratios[round][block]. In a round each
// arm is one process, and the i-th blocks of all arms run one after the other, so slow drift
// cancels within a ratio.
using LogRatios = std::vector<std::vector<double>>;

// Speedup of one arm over another, above 1 if it is faster: the median of each round's blocks, and
// the mean of these over the rounds. Two processes of one program differ by the luck of their
// memory and thread placement, which is drawn once per process. So a round counts as one
// observation, and the interval is Student's t over the rounds. Resampling blocks would find a
// difference between equal arms in a third of the cases, resampling rounds and blocks (a
// hierarchical bootstrap of few rounds) in a tenth.
struct Speedup {
  double ratio = 1;
  Interval interval = {};
  double error = 0.05;  // probability that the interval misses the truth
  int64_t rounds = 0;
  // Share of the variance of rounds that blocks do not explain, 0 to 1. NaN: unknown, because there
  // is one round, or one block per round.
  double between = std::numeric_limits<double>::quiet_NaN();
};
// Returns the speedup and its interval. The interval of a single round is from 0 to infinity.
Speedup speedup(const LogRatios& ratios, double error = 0.05);

// Returns the factor by which equal arms may differ: the placebo's ratio, upwards, and at least
// 1.01.
double noise_of(const Speedup& placebo);

enum class Verdict { faster, slower, no_difference, too_few_rounds };
constexpr int64_t kFewestRounds = 3;
// Returns faster or slower only if the whole interval lies beyond the noise of the placebo.
Verdict judge(const Speedup& measured, const Speedup& placebo);

// Returns the x that Student's t exceeds in absolute value with probability `error`.
double student_t(double error, int64_t degrees_of_freedom);

// A comparison may end early, after any of these numbers of rounds, if its interval at that error
// gives the answer. The errors add up to 0.05, so looking several times finds a difference between
// equal arms no more often than looking once. The first looks take little of it (a power family of
// Kim and DeMets, Biometrika 1987), so the last interval is hardly wider than one of 95 %.
struct Look {
  int64_t rounds;
  double error;
};
std::vector<Look> looks_for(int64_t rounds);

}  // namespace bellows
