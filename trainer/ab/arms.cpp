// Configurations, costs and counters of arms.
#include "trainer/ab/arms.h"
#include <algorithm>
#include <cmath>
#include "core/config/config.h"
#include "plan/toggle.h"

namespace bellows {

Config config_of(const AbArm& arm, const Names& overrides) {
  std::vector<Values> sources = sources_of(arm.config, overrides);
  sources.push_back(parse_overrides(arm.set));
  return make_config(sources);
}

int64_t mantissa_bits(const Plan& plan) {
  using Precision = AmpOptions::Precision;
  if (plan.amp.dtype == Precision::bf16 || plan.dist.compress) return 7;
  if (plan.data.loader.feed.device_augment) return 8;
  return plan.amp.dtype == Precision::fp16 || plan.kernels.tf32 ? 10 : 23;
}

// ---- costs

// Mean of each block, not median of its steps. W workers deliver in bursts: most steps find their
// batch ready and one in W waits for all of them.
static std::vector<double> by_block(const AbProcess& process, const ArmOptions& options,
                                    double AbBlock::*spent) {
  const bool whole_run = options.measure == AbMeasure::target;
  std::vector<double> costs;
  for (const AbBlock& block : process.blocks)
    costs.push_back(whole_run ? block.*spent : block.*spent / double(block.steps));
  return costs;
}

std::vector<double> costs_of(const AbProcess& process, const ArmOptions& options, Clock clock) {
  return by_block(process, options, clock == Clock::wall ? &AbBlock::wall_s : &AbBlock::cpu_s);
}

std::vector<double> costs_of(const AbArm& arm, const ArmOptions& options, Clock clock) {
  std::vector<double> costs;
  for (const AbProcess& process : arm.processes)
    for (const double cost : costs_of(process, options, clock)) costs.push_back(cost);
  return costs;
}

std::vector<double> energies_of(const AbProcess& process, const ArmOptions& options) {
  const std::vector<double> energies = by_block(process, options, &AbBlock::energy_j);
  const bool metered = std::ranges::any_of(energies, [](double joules) { return joules > 0; });
  return metered ? energies : std::vector<double>{};
}

std::vector<double> energies_of(const AbArm& arm, const ArmOptions& options) {
  std::vector<double> energies;
  for (const AbProcess& process : arm.processes)
    for (const double joules : energies_of(process, options)) energies.push_back(joules);
  return energies;
}

Speedup arm_speedup(const RoundsResult& result, const std::vector<const AbArm*>& others,
                    const AbArm& arm) {
  const auto costs_in = [&](const AbProcess& process) {
    return costs_of(process, result.options, result.options.clock);
  };
  LogRatios ratios;
  for (size_t round = 0; round < arm.processes.size(); ++round) {
    std::vector<double>& blocks = ratios.emplace_back();
    for (const double cost : costs_in(arm.processes[round])) blocks.push_back(-std::log(cost));
    for (const AbArm* other : others) {
      const std::vector<double> costs = costs_in(other->processes[round]);
      for (size_t i = 0; i < costs.size(); ++i)
        blocks[i] += std::log(costs[i]) / double(others.size());
    }
  }
  return speedup(ratios, result.error);
}

Speedup speedup(const RoundsResult& result, const AbArm& arm) {
  return arm_speedup(result, {&result.baseline(), &result.placebo}, arm);
}

Speedup placebo_speedup(const RoundsResult& result) {
  return arm_speedup(result, {&result.baseline()}, result.placebo);
}

// ---- counters

int64_t footprint(const Toggle& toggle, const AbArm& arm) {
  int64_t count = 0;
  for (const AbProcess& process : arm.processes)
    count += trace::value_of(process.end.counters, toggle.footprint);
  return count;
}

static double per_step(const AbArm& arm, const std::string& name) {
  int64_t steps = 0, count = 0;
  for (const AbProcess& process : arm.processes) {
    for (const AbBlock& block : process.blocks) steps += block.steps;
    count += trace::value_of(process.blocks.back().counters, name) -
             trace::value_of(process.warmup.counters, name);
  }
  return double(count) / double(steps);
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
