// Costs, speedup, counters and losses of two arms, from their reports.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include "trainer/ab/ab.h"

namespace bellows {

std::vector<double> step_costs(const AbArm& arm, Clock clock) {
  std::vector<double> costs;
  for (const AbBlock& block : arm.blocks) {
    const double spent = clock == Clock::wall ? block.wall_s : block.cpu_s;
    // Mean of the block, not median of its steps. W workers deliver in bursts: most steps find
    // their batch ready and one in W waits for all of them.
    costs.push_back(spent / static_cast<double>(block.steps));
  }
  return costs;
}

Speedup speedup(const AbPair& pair, Clock clock) {
  return speedup(step_costs(pair.off, clock), step_costs(pair.on, clock));
}

// ---- counters

static int64_t count_of(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

int64_t footprint(const Toggle& toggle, const AbArm& arm) {
  return count_of(arm.end.counters, toggle.footprint);
}

Finding compare_footprints(const Toggle& toggle, const AbPair& pair) {
  const int64_t off = footprint(toggle, pair.off);
  const int64_t on = footprint(toggle, pair.on);
  const std::string counts =
      fmt::format("`{}` counted {} with it off and {} with it on", toggle.footprint, off, on);
  if (on == 0) return {false, "did not run: " + counts};
  if (off != 0) return {false, "ran in both arms: " + counts};
  return {true, counts};
}

static double per_step(const AbArm& arm, const std::string& name) {
  int64_t steps = 0;
  for (const AbBlock& block : arm.blocks) steps += block.steps;
  const int64_t begin = count_of(arm.warmup.counters, name);
  return static_cast<double>(count_of(arm.blocks.back().counters, name) - begin) /
         static_cast<double>(steps);
}

std::vector<CounterRates> differing_counters(const AbPair& pair) {
  Counters names = pair.off.blocks.back().counters;
  names.insert(pair.on.blocks.back().counters.begin(), pair.on.blocks.back().counters.end());
  std::vector<CounterRates> rates;
  for (const auto& [name, count] : names) {
    const double off = per_step(pair.off, name), on = per_step(pair.on, name);
    // The tolerance of 1 % covers batches that workers have made ahead when a block ends: their
    // number varies.
    if (std::abs(off - on) > 0.01 * std::max(std::abs(off), std::abs(on)))
      rates.push_back({name, off, on});
  }
  return rates;
}

// ---- losses

// Number of first losses by which a toggle of class `close` is judged. Up to here each kernel has
// added its own rounding error once. The first loss covers the forward pass on equal weights and
// data, the second one also the backward pass and the update. After that the arms continue from
// different weights, and training amplifies a difference of any origin. On ResNet-18 it grows by a
// factor of four per step, from 3e-7 of the loss at step 2 to 1e-3 at step 8. That drift is
// reported but not judged, because it does not measure the kernels.
constexpr int64_t kJudged = 2;
constexpr double kLooseEnd = 0.1;

namespace {

struct LossGap {
  int64_t steps = 0, first_unequal = -1;  // first step whose losses differ in any bit; -1: none
  double judged = 0, drift = 0;           // largest relative gap: of the first kJudged, of all
  double end = 0;                         // gap of the means of the last quarter / first loss
  bool finite = true;
};

}  // namespace

static double mean_of_last_quarter(const std::vector<double>& losses) {
  const auto begin = losses.end() - static_cast<int64_t>((losses.size() + 3) / 4);
  return std::accumulate(begin, losses.end(), 0.0) / static_cast<double>(losses.end() - begin);
}

static LossGap loss_gap(const std::vector<double>& off, const std::vector<double>& on) {
  LossGap gap;
  gap.steps = static_cast<int64_t>(std::min(off.size(), on.size()));
  for (int64_t i = 0; i < gap.steps; ++i) {
    gap.finite = gap.finite && std::isfinite(off[i]) && std::isfinite(on[i]);
    if (off[i] == on[i]) continue;
    if (gap.first_unequal < 0) gap.first_unequal = i;
    const double relative = std::abs(off[i] - on[i]) / std::max(std::abs(off[i]), std::abs(on[i]));
    gap.drift = std::max(gap.drift, relative);
    if (i < kJudged) gap.judged = gap.drift;
  }
  gap.end = std::abs(mean_of_last_quarter(off) - mean_of_last_quarter(on)) / std::abs(off.front());
  return gap;
}

static std::string close_text(const Toggle& toggle, const LossGap& gap, bool equal) {
  const std::string declared = fmt::format(
      "declared close, within {:.1e} of the loss up to the first update, and ", toggle.tolerance);
  if (equal) return declared + "equal bit for bit";
  return declared + fmt::format(
                        "apart by {:.1e}; drift after that, which training makes of any "
                        "rounding and which is not judged: {:.1e}",
                        gap.judged, gap.drift);
}

Finding compare_losses(const Toggle& toggle, const AbPair& pair) {
  const std::vector<double>&off = pair.off.end.losses, &on = pair.on.end.losses;
  if (off.empty() || on.empty()) return {false, "no loss was reported"};
  const LossGap gap = loss_gap(off, on);
  const std::string ends = fmt::format(
      "from {:.4f} to {:.4f} with it off and to {:.4f} with it on (means of the last quarter of {} "
      "steps)",
      off.front(), mean_of_last_quarter(off), mean_of_last_quarter(on), gap.steps);
  if (!gap.finite) return {false, "not finite, " + ends};
  const bool equal = gap.first_unequal < 0 && off.size() == on.size();
  const Same same = promise(toggle, pair.off.end.counters, pair.on.end.counters);
  if (same == Same::bitwise)
    return {equal, fmt::format("declared bitwise, and {}; {}",
                               equal ? "equal bit for bit"
                                     : fmt::format("unequal from step {} on, by up to {:.1e} of "
                                                   "the loss",
                                                   gap.first_unequal + 1, gap.drift),
                               ends)};
  if (same == Same::close)
    return {gap.judged <= toggle.tolerance, close_text(toggle, gap, equal) + "; " + ends};
  return {gap.end <= kLooseEnd,
          fmt::format("declared statistical, so held loosely: the means of the last quarter may "
                      "differ by {} % of the first loss, and differ by {:.1f} %; {}",
                      100 * kLooseEnd, 100 * gap.end, ends)};
}

}  // namespace bellows
