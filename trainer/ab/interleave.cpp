// One round: the processes of all arms, and their time slices in turn. A pilot is a short round.
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <deque>
#include "core/base/trace.h"
#include "core/base/words.h"
#include "trainer/ab/process.h"
#include "trainer/ab/rounds.h"
#include "trainer/log/log_line.h"
#include "trainer/state/run_folder.h"

namespace bellows {

// Returns the command that starts a process of the arm. `more`: settings of this process alone.
static Names arm_command(const ArmOptions& options, const AbArm& arm, const std::string& folder,
                         const Round& round, const Names& more) {
  Names argv = {"/proc/self/exe", "ab", "--config", arm.config, "--arm-folder", folder};
  const auto add = [&](const char* option, const auto& value) {
    argv.insert(argv.end(), {option, cat(value)});
  };
  for (const std::string& setting : arm.set) add("--set", setting);
  if (arm.placebo) argv.push_back("--placebo");
  add("--round", round.number);
  add("--mantissa", round.mantissa);
  add("--parent", getpid());
  if (options.measure == AbMeasure::epoch) add("--measure", "epoch");
  if (options.measure == AbMeasure::target)
    add("--time-to", cat(options.target.metric, "=", options.target.value));
  add("--steps", options.steps);
  add("--blocks", options.blocks);
  add("--warmup", options.warmup);
  argv.insert(argv.end(), options.overrides.begin(), options.overrides.end());
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

std::vector<size_t> slice_order(size_t arms, int64_t blocks) {
  std::vector<size_t> order;
  for (int64_t block = 0; block < blocks; ++block)
    for (size_t place = 0; place < arms; ++place)
      order.push_back(block % 2 ? arms - 1 - place : place);
  return order;
}

// Returns the results so far: "amp=off 10.12 s a step, its placebo not measured".
static std::string partial_text(const std::vector<AbArm*>& arms,
                                const std::vector<AbProcess>& measured) {
  Names all;
  for (size_t i = 0; i < arms.size(); ++i) {
    const AbProcess& process = measured[i];
    const AbBlock& last = process.blocks.empty() ? process.warmup : process.blocks.back();
    const double step_s = last.wall_s / double(last.steps);
    all.push_back(last.steps == 0 ? arms[i]->name + " not measured"
                                  : fmt::format("{} {:.4g} s a step", arms[i]->name, step_s));
  }
  return joined(all);
}

static void end_if_due(const ArmOptions& options, const Signals& signals,
                       const std::vector<AbArm*>& arms, const std::vector<AbProcess>& measured) {
  const int signal = signals.stop();
  if (!signal && (options.ranks > 1 || budget_left_s(options) > 0)) return;
  const std::string why = signal ? cat("interrupted by ", name_of_signal(signal))
                                 : fmt::format("--budget: {:g} s were spent", options.budget_s);
  throw RoundsEnded(cat(options.verb, ": ", why, " before each arm had run one process: ",
                        partial_text(arms, measured), signal ? "" : "; raise the budget"),
                    signal);
}

void interleave(const std::vector<AbArm*>& arms, const ArmOptions& options, const Signals& signals,
                const Round& round, const std::function<void()>& after_slice) {
  const ScratchFolder scratch;
  std::vector<AbProcess> measured(arms.size());
  const auto check = [&] { end_if_due(options, signals, arms, measured); };
  std::deque<ArmProcess> processes;
  const auto name_of = [&](size_t arm) { return cat(options.verb, ": ", arms[arm]->name); };
  const auto run_slice = [&](size_t arm) {
    check();
    for (size_t other = 0; other < processes.size(); ++other)
      if (other != arm && !processes[other].stopped())
        fail(Exit::internal, name_of(other), " ran during another arm's time slice");
    AbBlock block = parse_block(processes[arm].run_slice());
    after_slice();
    return block;
  };
  size_t now = 0;  // the arm that runs
  try {
    for (now = 0; now < arms.size(); ++now) {
      const Names more = round.settings.empty() ? Names() : round.settings[now];
      const std::string folder = scratch / cat("arm", now).c_str();
      processes.emplace_back(name_of(now), arm_command(options, *arms[now], folder, round, more),
                             options.timeout_s, check);
      measured[now].warmup = run_slice(now);
    }
    for (const size_t arm : slice_order(arms.size(), options.blocks))
      measured[arm].blocks.push_back(run_slice(now = arm));
    for (now = 0; now < arms.size(); ++now) {
      measured[now].end = parse_end(processes[now].finish());
      measured[now].cpu_s_waiting = processes[now].cpu_seconds_waiting();
    }
  } catch (const RoundsEnded&) {
    throw;
  } catch (const Error& error) {
    throw ArmFailed(error, arms[now]);
  }
  for (size_t i = 0; i < arms.size(); ++i) arms[i]->processes.push_back(std::move(measured[i]));
}

// ---- the pilot

static bool may_warm_up_less(const ArmOptions& options) {
  return options.budget_s > 0 && options.warmup == ArmOptions().warmup;
}

static Pilot run_pilot(std::vector<AbArm>& arms, const ArmOptions& options,
                       const Signals& signals) {
  std::vector<AbArm*> all;
  for (AbArm& arm : arms) all.push_back(&arm);
  const int64_t begin = trace::now_ns();
  interleave(all, options, signals, {});
  double blocks_s = 0, steps = 0;
  for (const AbArm& arm : arms) {
    const AbBlock& block = arm.processes.back().blocks[0];
    blocks_s += block.wall_s;
    steps += double(block.steps);
  }
  const double step_s = blocks_s / steps;
  const double arm_s = (seconds_since(begin) - blocks_s) / double(arms.size());
  return {std::max(0.0, arm_s - double(options.warmup) * step_s), step_s};
}

Pilot try_arms(std::vector<AbArm>& arms, const ArmOptions& given, const Signals& signals) {
  ArmOptions options = given;
  options.blocks = options.steps = options.warmup = 1;
  if (may_warm_up_less(given)) {
    std::vector<AbArm> first = {arms.front()};
    const Pilot look = run_pilot(first, options, signals);
    constexpr double kShare = 0.1;  // share of the budget for the pilot
    const auto steps = double(kFewestWarmup) + 5;
    if (double(arms.size()) * (look.start_s + steps * look.step_s) > kShare * options.budget_s) {
      arms.front().processes = first.front().processes;
      return look;
    }
  }
  options.steps = std::min<int64_t>(given.steps, 5);
  options.warmup = may_warm_up_less(given) ? kFewestWarmup : given.warmup;
  return run_pilot(arms, options, signals);
}

double Pilot::round_s(const ArmOptions& options, size_t arms) const {
  const auto steps = double(options.warmup + options.blocks * options.steps);
  return double(arms) * (start_s + steps * step_s);
}

size_t Pilot::fit(ArmOptions& options, size_t arms) const {
  if (options.budget_s == 0) return arms;
  const double left_s = budget_left_s(options);
  // Number of steps per process for which the budget has time in one round.
  const auto affordable = std::max<int64_t>(
      2, int64_t(std::min((usable * left_s / double(arms) - start_s) / step_s, 1e9)));
  if (may_warm_up_less(options))
    options.warmup =
        std::clamp(int64_t(kWarmupSeconds / step_s), std::min(kFewestWarmup, affordable / 2),
                   std::min(options.warmup, affordable / 2));
  const int64_t steps =
      std::min(int64_t(start_s / step_s) + options.warmup, affordable - options.warmup);
  const int64_t fewest = std::clamp<int64_t>(affordable - options.warmup, 1,
                                             std::min(kFewestBlockSteps, options.steps));
  options.blocks = std::clamp<int64_t>(steps / fewest, 1, options.blocks);
  options.steps = std::clamp<int64_t>(steps / options.blocks, 1, options.steps);
  return std::min(arms, size_t(std::max(0.0, usable * left_s / round_s(options, 1))));
}

void Pilot::fit_all(ArmOptions& options, size_t arms) const {
  CHECK(fit(options, arms) == arms, options.verb, ": --budget: ", options.budget_s,
        " s are too short for one process of each of ", arms, " arms, about ",
        clock_text(round_s(options, arms)),
        fmt::format(" (a step takes {:.3g} s, a start {:.3g} s)", step_s, start_s),
        "; raise the budget or compare fewer arms");
}

std::string Pilot::text(const ArmOptions& options, size_t arms) const {
  const double round = round_s(options, arms);
  const int64_t rounds =
      options.budget_s > 0 ? int64_t(budget_left_s(options) / round) : options.processes;
  return fmt::format("{} arms in {} of {} steps, about {}", arms, count_of(rounds, "round"),
                     options.warmup + options.blocks * options.steps,
                     clock_text(round * double(rounds)));
}

}  // namespace bellows
