#include "core/base/statistics.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include "core/base/check.h"

namespace bellows {

double quantile(std::vector<double> values, double share) {
  CHECK(!values.empty(), "no values to take a quantile of");
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

std::vector<double> distances_from_median(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return distances;
}

// Standard deviation of normal values with the same median absolute deviation.
static double robust_deviation(const std::vector<double>& values) {
  return 1.4826 * median(distances_from_median(values));
}

int64_t count_outliers(const std::vector<double>& values) {
  const double limit = 10 * robust_deviation(values);
  return std::ranges::count_if(distances_from_median(values),
                               [&](double distance) { return distance > limit; });
}

// With x = sqrt(n) tan(angle), the density of Student's t with n degrees of freedom becomes
// proportional to cos(angle)^(n - 1), from 0 to pi / 2.
double student_t(double error, int64_t degrees_of_freedom) {
  const auto n = static_cast<double>(degrees_of_freedom);
  constexpr int kSteps = 2048;
  constexpr double kStep = M_PI / 2 / kSteps;
  const auto density = [&](int i) { return std::pow(std::cos((i + 0.5) * kStep), n - 1); };
  double left = 0;
  for (int i = 0; i < kSteps; ++i) left += (1 - error) * density(i);
  int i = 0;
  while (left > density(i)) left -= density(i++);
  return std::sqrt(n) * std::tan((i + left / density(i)) * kStep);
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

static double variance(const std::vector<double>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum / static_cast<double>(values.size() - 1);
}

Speedup speedup(const LogRatios& ratios, double error) {
  std::vector<double> medians, within;
  for (const std::vector<double>& blocks : ratios) {
    medians.push_back(median(blocks));
    const double sigma = robust_deviation(blocks);  // of a block; that of their median follows
    within.push_back(M_PI / 2 * sigma * sigma / static_cast<double>(blocks.size()));
  }
  CHECK(!medians.empty(), "no rounds to compare");
  const auto rounds = static_cast<int64_t>(medians.size());
  const double middle = mean(medians);
  Speedup result = {.ratio = std::exp(middle), .error = error, .rounds = rounds};
  result.interval = {0, std::numeric_limits<double>::infinity()};
  if (rounds < 2) return result;
  const double spread = variance(medians);
  const double reach =
      student_t(error, rounds - 1) * std::sqrt(spread / static_cast<double>(rounds));
  result.interval = {std::exp(middle - reach), std::exp(middle + reach)};
  if (std::ranges::all_of(ratios, [](const auto& blocks) { return blocks.size() > 1; }))
    result.between = spread > 0 ? std::max(0.0, 1 - mean(within) / spread) : 0;
  return result;
}

double noise_of(const Speedup& placebo) {
  return std::max({1.01, placebo.ratio, 1 / placebo.ratio});
}

Verdict judge(const Speedup& measured, const Speedup& placebo) {
  if (std::min(measured.rounds, placebo.rounds) < kFewestRounds) return Verdict::too_few_rounds;
  const double noise = noise_of(placebo);
  if (measured.interval.low > noise) return Verdict::faster;
  if (measured.interval.high < 1 / noise) return Verdict::slower;
  return Verdict::no_difference;
}

std::vector<Look> looks_for(int64_t rounds) {
  std::vector<Look> looks;
  double spent = 0;
  for (const int64_t at : {(rounds + 3) / 4, (rounds + 1) / 2, rounds}) {
    if (at < kFewestRounds) continue;
    const double part = static_cast<double>(at) / static_cast<double>(rounds);
    const double allowed = 0.05 * part * part * part;
    looks.push_back({at, allowed - spent});
    spent = allowed;
  }
  return looks;
}

}  // namespace bellows
