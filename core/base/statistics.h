// Statistics of measured times: the speedup between two arms with its confidence interval, compared
// with the speedup that the same protocol measures for two equal arms (a placebo).
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

// Named values of one time step, for metrics.jsonl and TensorBoard.
using Scalars = std::vector<std::pair<std::string, double>>;

double quantile(std::vector<double> values, double share);  // share: 0 to 1; interpolated
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// Returns how many values are further from the median than 10 x 1.4826 median absolute deviations,
// as in hyperfine. They are reported, not dropped: medians tolerate them, and they show how noisy
// the machine was.
int64_t count_outliers(const std::vector<double>& values);

struct Interval {
  double low = 1, high = 1;
};

// Speedup of `on` over `off`: the median over i of off[i] / on[i], above 1 if `on` is faster. The
// i-th blocks of both arms ran one after the other, so slow drift cancels within a pair. The 95 %
// interval is a bootstrap over pairs, because the steps inside a block are not independent.
struct Speedup {
  double ratio = 1;
  Interval interval;
  int64_t blocks = 0;  // per arm
};
Speedup speedup(const std::vector<double>& off, const std::vector<double>& on, uint64_t seed = 1);

// Returns the ratios that count as noise: the interval of two equal arms, symmetric around 1 and at
// least +-1 % wide. Two processes of one program differ by the luck of their memory layout, and a
// placebo samples that luck only once.
Interval noise_band(const Speedup& placebo);

enum class Verdict { faster, slower, no_difference, too_few_blocks };
constexpr int64_t kFewestBlocks = 5;  // per arm
// Returns faster or slower only if the whole interval lies outside the noise band.
Verdict judge(const Speedup& measured, const Speedup& placebo);

}  // namespace bellows
