#include "core/base/statistics.h"
#include <algorithm>
#include <cmath>
#include "core/base/check.h"
#include "core/base/philox.h"

namespace bellows {

double quantile(std::vector<double> values, double share) {
  CHECK(!values.empty(), "no values to take a quantile of");
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

int64_t count_outliers(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  const double limit = 10 * 1.4826 * median(distances);
  return std::ranges::count_if(distances, [&](double distance) { return distance > limit; });
}

// Returns the 95 % interval of the median, from resampling with replacement.
static Interval bootstrap(const std::vector<double>& values, uint64_t seed) {
  constexpr int kResamples = 1000;
  const uint64_t n = values.size();
  const Philox rng({.seed = seed});
  std::vector<double> medians, sample(n);
  for (uint64_t resample = 0; resample < kResamples; ++resample) {
    for (uint64_t i = 0; i < n; ++i) sample[i] = values[rng.below(n, resample * n + i)];
    medians.push_back(median(sample));
  }
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

Speedup speedup(const std::vector<double>& off, const std::vector<double>& on, uint64_t seed) {
  CHECK(off.size() == on.size() && !off.empty(), "blocks come in pairs, and there are ", off.size(),
        " and ", on.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < off.size(); ++i) ratios.push_back(off[i] / on[i]);
  return {median(ratios), bootstrap(ratios, seed), static_cast<int64_t>(ratios.size())};
}

Interval noise_band(const Speedup& placebo) {
  const double widest = std::max({1.01, placebo.interval.high, 1 / placebo.interval.low});
  return {1 / widest, widest};
}

Verdict judge(const Speedup& measured, const Speedup& placebo) {
  if (std::min(measured.blocks, placebo.blocks) < kFewestBlocks) return Verdict::too_few_blocks;
  const Interval noise = noise_band(placebo);
  if (measured.interval.low > noise.high) return Verdict::faster;
  if (measured.interval.high < noise.low) return Verdict::slower;
  return Verdict::no_difference;
}

}  // namespace bellows
