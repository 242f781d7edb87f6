// What measured times can show, and what they cannot: the ratio of two arms with the interval in
// which it is known, held against what the same protocol shows for two equal arms.
#pragma once
#include <cstdint>
#include <vector>

namespace bellows {

double quantile(std::vector<double> values, double share);  // linear between neighbours
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// Values further from the median than 10 x 1.4826 median absolute deviations, as hyperfine has it.
// Counted, never dropped: medians bear them, and a reader should know how rough the machine was.
int64_t count_outliers(const std::vector<double>& values);

struct Interval {
  double low = 1, high = 1;
};

// Above 1 where `on` is faster: the median over i of off[i] / on[i]. The i-th blocks of both arms
// ran one after the other, so what drifts slowly cancels within the pair; the 95 % interval is a
// bootstrap over pairs, because the steps inside a block are not independent of each other.
struct Speedup {
  double ratio = 1;
  Interval interval;
  int64_t blocks = 0;  // a side
};
Speedup speedup(const std::vector<double>& off, const std::vector<double>& on, uint64_t seed = 1);

// The ratios that mean nothing: what two equal arms showed, in either direction, and never less
// than 1 %, because two processes of one program differ by the luck of their memory layout and one
// placebo has seen that luck once.
Interval noise_band(const Speedup& placebo);

enum class Verdict { faster, slower, no_difference, too_few_blocks };
constexpr int64_t kFewestBlocks = 5;  // a side
// Faster or slower only where the whole interval lies outside the band.
Verdict judge(const Speedup& measured, const Speedup& placebo);

}  // namespace bellows
