// Costs, speedup and counters of two arms, from their blocks.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "trainer/ab/ab.h"

namespace bellows {

std::vector<double> step_costs(const AbArm& arm, AbClock clock) {
  std::vector<double> costs;
  for (const AbBlock& block : arm.blocks) {
    const double spent = clock == AbClock::wall ? block.wall_s : block.cpu_s;
    // Mean of the block, not median of its steps. W workers deliver in bursts: most steps find
    // their batch ready and one in W waits for all of them.
    costs.push_back(spent / static_cast<double>(block.steps));
  }
  return costs;
}

Speedup speedup(const AbPair& pair, AbClock clock) {
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

}  // namespace bellows
