// Costs, speedup and counters of arms, from their reports.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include "trainer/ab/ab.h"

namespace bellows {

std::vector<double> costs_of(const AbProcess& process, const AbOptions& options, Clock clock) {
  std::vector<double> costs;
  for (const AbBlock& block : process.blocks) {
    const double spent = clock == Clock::wall ? block.wall_s : block.cpu_s;
    // Mean of the block, not median of its steps. W workers deliver in bursts: most steps find
    // their batch ready and one in W waits for all of them.
    const bool whole_run = options.measure == AbMeasure::target;
    costs.push_back(whole_run ? spent : spent / static_cast<double>(block.steps));
  }
  return costs;
}

std::vector<double> costs_of(const AbArm& arm, const AbOptions& options, Clock clock) {
  std::vector<double> costs;
  for (const AbProcess& process : arm.processes)
    for (const double cost : costs_of(process, options, clock)) costs.push_back(cost);
  return costs;
}

int64_t misses(const AbResult& result) {
  if (result.options.measure != AbMeasure::target) return 0;
  const auto in = [](const AbArm& arm) {
    return std::ranges::count(arm.processes, false,
                              [](const AbProcess& process) { return process.end.reached_target; });
  };
  int64_t count = in(result.off) + in(result.placebo);
  for (const AbArm& arm : result.on) count += in(arm);
  return count;
}

// ---- speedup

// Calls ratio(off, placebo, on) with the costs of the i-th blocks of a round.
template <class Ratio>
static LogRatios log_ratios(const AbResult& result, const AbArm& on, const Ratio& ratio) {
  LogRatios all;
  for (size_t round = 0; round < on.processes.size(); ++round) {
    const auto costs = [&](const AbArm& arm) {
      return costs_of(arm.processes[round], result.options, result.options.clock);
    };
    const auto off = costs(result.off), placebo = costs(result.placebo), measured = costs(on);
    std::vector<double> blocks;
    for (size_t i = 0; i < off.size(); ++i)
      blocks.push_back(ratio(std::log(off[i]), std::log(placebo[i]), std::log(measured[i])));
    all.push_back(std::move(blocks));
  }
  return all;
}

Speedup speedup(const AbResult& result, const AbArm& on) {
  const auto ratio = [](double off, double placebo, double on) { return (off + placebo) / 2 - on; };
  return speedup(log_ratios(result, on, ratio), result.error);
}

Speedup placebo_speedup(const AbResult& result) {
  const auto ratio = [](double off, double placebo, double) { return off - placebo; };
  return speedup(log_ratios(result, result.placebo, ratio), result.error);
}

bool is_clear(const AbResult& result) {
  const Speedup placebo = placebo_speedup(result);
  return std::ranges::all_of(result.on, [&](const AbArm& arm) {
    const Speedup s = speedup(result, arm);
    const bool equal = s.interval.low > 1 / 1.01 && s.interval.high < 1.01;
    return equal || judge(s, placebo) == Verdict::faster || judge(s, placebo) == Verdict::slower;
  });
}

double resolution(const AbResult& result, int64_t rounds) {
  double widest = 0;
  for (const AbArm& arm : result.on) {
    const Speedup s = speedup(result, arm);
    const double deviation = std::log(s.interval.high / s.ratio) /
                             student_t(s.error, s.rounds - 1) *
                             std::sqrt(static_cast<double>(s.rounds));
    widest = std::max(
        widest, student_t(0.05, rounds - 1) * deviation / std::sqrt(static_cast<double>(rounds)));
  }
  return noise_of({}) * std::exp(widest) - 1;
}

// ---- counters

static int64_t count_of(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

int64_t footprint(const Toggle& toggle, const AbArm& arm) {
  int64_t count = 0;
  for (const AbProcess& process : arm.processes)
    count += count_of(process.end.counters, toggle.footprint);
  return count;
}

Finding compare_footprints(const Toggle& toggle, const AbArm& off_arm, const AbArm& on_arm) {
  const int64_t off = footprint(toggle, off_arm);
  const int64_t on = footprint(toggle, on_arm);
  const std::string counts =
      fmt::format("`{}` counted {} with it off and {} with it on", toggle.footprint, off, on);
  if (on == 0) return {false, "did not run: " + counts};
  if (off != 0) return {false, "ran in both arms: " + counts};
  return {true, counts};
}

static double per_step(const AbArm& arm, const std::string& name) {
  int64_t steps = 0, count = 0;
  for (const AbProcess& process : arm.processes) {
    for (const AbBlock& block : process.blocks) steps += block.steps;
    count +=
        count_of(process.blocks.back().counters, name) - count_of(process.warmup.counters, name);
  }
  return static_cast<double>(count) / static_cast<double>(steps);
}

std::vector<CounterRates> differing_counters(const AbArm& off_arm, const AbArm& on_arm) {
  Counters names;
  for (const AbArm* arm : {&off_arm, &on_arm})
    for (const AbProcess& process : arm->processes)
      names.insert(process.blocks.back().counters.begin(), process.blocks.back().counters.end());
  std::vector<CounterRates> rates;
  for (const auto& [name, count] : names) {
    const double off = per_step(off_arm, name), on = per_step(on_arm, name);
    // The tolerance of 1 % covers batches that workers have made ahead when a block ends: their
    // number varies.
    if (std::abs(off - on) > 0.01 * std::max(std::abs(off), std::abs(on)))
      rates.push_back({name, off, on});
  }
  return rates;
}

}  // namespace bellows
