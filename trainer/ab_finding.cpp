// What the blocks of two arms show.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include "trainer/ab.h"

namespace bellows {

std::vector<double> step_costs(const AbArm& arm, AbClock clock) {
  std::vector<double> costs;
  for (const AbBlock& block : arm.blocks) {
    const double spent = clock == AbClock::wall ? block.wall_s : block.cpu_s;
    // The mean of the block, not the median of its steps: W workers deliver in bursts, so that most
    // steps find their batch ready and one of W waits for all.
    costs.push_back(spent / static_cast<double>(block.steps));
  }
  return costs;
}

Speedup speedup(const AbPair& pair, AbClock clock) {
  return speedup(step_costs(pair.off, clock), step_costs(pair.on, clock));
}

// ---- losses

namespace {

struct LossGap {
  int64_t steps = 0, first_unequal = -1;  // bit for bit
  double early = 0;                       // the largest relative one of the first steps
  double end = 0;                         // of the mean of the last quarter, against the first loss
  bool finite = true;
};

}  // namespace

// Rounding grows from step to step, in any two runs, so a tolerance holds for the beginning only.
constexpr int64_t kEarlySteps = 50;
constexpr double kLooseEnd = 0.1;

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
    const double larger = std::max(std::abs(off[i]), std::abs(on[i]));
    if (i < kEarlySteps) gap.early = std::max(gap.early, std::abs(off[i] - on[i]) / larger);
  }
  gap.end = std::abs(mean_of_last_quarter(off) - mean_of_last_quarter(on)) / std::abs(off.front());
  return gap;
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
  const std::string how_close =
      equal ? "equal bit for bit"
            : fmt::format("unequal from step {} on, by at most {:.1e} of the loss in the first {}",
                          gap.first_unequal + 1, gap.early, std::min(kEarlySteps, gap.steps));
  const Same same = promise(toggle, pair.off.end.counters);
  if (same == Same::bitwise)
    return {equal, fmt::format("declared bitwise, and {}; {}", how_close, ends)};
  if (same == Same::close)
    return {gap.early <= toggle.tolerance, fmt::format("declared close, within {:.1e}, and {}; {}",
                                                       toggle.tolerance, how_close, ends)};
  return {gap.end <= kLooseEnd,
          fmt::format("declared statistical, so held loosely: the means of the last quarter may "
                      "differ by {} % of the first loss, and differ by {:.1f} %; {}",
                      100 * kLooseEnd, 100 * gap.end, ends)};
}

// ---- counters

using Counters = std::map<std::string, int64_t>;

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
    // What workers have made ahead when a block ends is not the same each time.
    if (std::abs(off - on) > 0.01 * std::max(std::abs(off), std::abs(on)))
      rates.push_back({name, off, on});
  }
  return rates;
}

}  // namespace bellows
