// Configurations, costs and counters of arms, and the lines that their processes report.
#include "trainer/ab/arms.h"
#include <algorithm>
#include <cmath>
#include "core/config/config.h"
#include "plan/toggle.h"

namespace bellows {

Config load_config(const AbArm& arm, const Names& overrides) {
  std::vector<Values> sources = read_sources(arm.config, overrides);
  sources.push_back(parse_overrides(arm.set));
  return make_config(sources);
}

std::string no_other_run(const AbArm& before, const AbArm& after, const Names& overrides) {
  const Values plan = dump(load_config(before, overrides).plan);
  try {
    return dump(load_config(after, overrides).plan) == plan ? "changes nothing in this plan" : "";
  } catch (const Error& error) {
    return error.what();
  }
}

AbArm make_arm(const ArmOptions& options, const std::string& name, const Values& set) {
  AbArm arm = {.name = name, .config = options.config};
  for (const auto& [key, value] : set) arm.set.push_back(cat(key, "=", value.text));
  return arm;
}

AbArm make_placebo(AbArm arm) {
  arm.name += " again";
  arm.placebo = true;
  return arm;
}

int64_t mantissa_bits(const Plan& plan) {
  using Precision = AmpOptions::Precision;
  if (plan.amp.dtype == Precision::bf16 || plan.dist.compress) return 7;
  if (plan.data.loader.feed.device_augment) return 8;
  return plan.amp.dtype == Precision::fp16 || plan.kernels.tf32 ? 10 : 23;
}

double budget_left_s(const ArmOptions& options) {
  return options.budget_s > 0 ? options.budget_s - seconds_since(options.begin_ns) : INFINITY;
}

// Returns means of blocks, not medians of steps: W workers deliver in bursts, so most steps find
// their batch ready and one in W waits for all of them.
std::vector<double> costs(const AbProcess& process, const ArmOptions& options,
                          double AbBlock::*quantity) {
  const bool whole_run = options.measure == AbMeasure::target;
  std::vector<double> costs;
  for (const AbBlock& block : process.blocks)
    costs.push_back(block.*quantity / (whole_run ? 1 : double(block.steps)));
  return costs;
}

std::vector<double> costs(const AbArm& arm, const ArmOptions& options, double AbBlock::*quantity) {
  std::vector<double> all;
  for (const AbProcess& process : arm.processes)
    for (const double cost : costs(process, options, quantity)) all.push_back(cost);
  return all;
}

Speedup speedup(const Comparison& c, const std::vector<const AbArm*>& others, const AbArm& arm) {
  const auto clock = c.options.clock == Clock::wall ? &AbBlock::wall_s : &AbBlock::cpu_s;
  LogRatios ratios;
  for (size_t round = 0; round < arm.processes.size(); ++round) {
    std::vector<double>& blocks = ratios.emplace_back();
    for (const double cost : costs(arm.processes[round], c.options, clock))
      blocks.push_back(-std::log(cost));
    for (const AbArm* other : others) {
      const std::vector<double> its_costs = costs(other->processes[round], c.options, clock);
      for (size_t i = 0; i < blocks.size(); ++i)
        blocks[i] += std::log(its_costs[i]) / double(others.size());
    }
  }
  return speedup(ratios, c.error);
}

Speedup speedup(const Comparison& c, const AbArm& arm) {
  return speedup(c, {&c.arms.front(), &c.placebo}, arm);
}

Speedup placebo_speedup(const Comparison& c) { return speedup(c, {&c.arms.front()}, c.placebo); }

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

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AbBlock, steps, wall_s, cpu_s, waited_s, counters, reader_s,
                                   energy_j, epoch_gaps_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AbEnd, losses, counters, threads, peak_tensor_bytes,
                                   peak_resident_bytes, samples, reached_target, pixels, evaluation)

template <class Report> static Report parsed(const std::string& line) {
  try {
    const auto as_nan = [](int, nlohmann::json::parse_event_t, nlohmann::json& value) {
      if (value.is_null()) value = NAN;  // JSON has no NaN
      return true;
    };
    const nlohmann::json json = nlohmann::json::parse(line, as_nan);
    return json.get<Report>();
  } catch (const nlohmann::json::exception& error) {
    fail(Exit::internal, "arms: an arm reported '", line.substr(0, 100), "': ", error.what());
  }
}

std::string to_line(const AbBlock& block) { return to_line(Json(nlohmann::json(block))); }
std::string to_line(const AbEnd& end) { return to_line(Json(nlohmann::json(end))); }
AbBlock parse_block(const std::string& line) { return parsed<AbBlock>(line); }
AbEnd parse_end(const std::string& line) { return parsed<AbEnd>(line); }

}  // namespace bellows
