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

ArmCommand arm_command(const ArmOptions& options, const AbArm& arm,
                       const ArmProcessOptions& process, const Names& more) {
  Names argv = {"/proc/self/exe", "ab", "--config", arm.config, "--arm-folder", process.folder};
  const auto add = [&](const char* option, const auto& value) {
    argv.insert(argv.end(), {option, cat(value)});
  };
  for (const std::string& setting : arm.set) add("--set", setting);
  if (process.placebo) argv.push_back("--placebo");
  add("--round", process.round);
  add("--mantissa", process.mantissa);
  add("--parent", getpid());
  if (options.measure == AbMeasure::epoch) add("--measure", "epoch");
  if (options.measure == AbMeasure::target)
    add("--time-to", cat(options.target.metric, "=", options.target.value));
  add("--steps", options.steps);
  add("--blocks", options.blocks);
  add("--warmup", options.warmup);
  argv.insert(argv.end(), options.overrides.begin(), options.overrides.end());
  argv.insert(argv.end(), more.begin(), more.end());
  return {cat(options.verb, ": ", arm.name), argv};
}

std::vector<size_t> slice_order(size_t arms, int64_t blocks) {
  std::vector<size_t> order;
  for (int64_t block = 0; block < blocks; ++block)
    for (size_t place = 0; place < arms; ++place)
      order.push_back(block % 2 ? arms - 1 - place : place);
  return order;
}

static void end_if_due(const ArmOptions& options, const Signals& signals) {
  if (const int signal = signals.stop())
    fail(static_cast<Exit>(128 + signal), options.verb, ": interrupted by ", name_of_signal(signal),
         " before the first result");
  if (options.ranks == 1 && budget_left_s(options) <= 0)
    throw BudgetSpent(fmt::format(
        "{}: --budget: {:g} s were spent before each arm had run one process; raise the budget",
        options.verb, options.budget_s));
}

std::vector<AbProcess> interleave(const std::vector<ArmCommand>& arms, const ArmOptions& options,
                                  const Signals& signals,
                                  const std::function<void()>& after_slice) {
  const auto check = [&] { end_if_due(options, signals); };
  std::vector<AbProcess> measured(arms.size());
  std::deque<ArmProcess> processes;
  const auto run_slice = [&](size_t arm) {
    check();
    for (size_t other = 0; other < processes.size(); ++other)
      if (other != arm && !processes[other].stopped())
        fail(Exit::internal, arms[other].name, " ran during another arm's time slice");
    AbBlock block = parse_block(processes[arm].run_slice());
    after_slice();
    return block;
  };
  for (size_t arm = 0; arm < arms.size(); ++arm) {
    processes.emplace_back(arms[arm].name, arms[arm].argv, options.timeout_s, check);
    measured[arm].warmup = run_slice(arm);
  }
  for (const size_t arm : slice_order(arms.size(), options.blocks))
    measured[arm].blocks.push_back(run_slice(arm));
  for (size_t arm = 0; arm < arms.size(); ++arm) {
    measured[arm].end = parse_end(processes[arm].finish());
    measured[arm].cpu_s_waiting = processes[arm].cpu_seconds_waiting();
  }
  return measured;
}

// ---- the pilot

// True within a budget, unless the user has chosen another warm-up than the default.
static bool may_warm_up_less(const ArmOptions& options) {
  return options.budget_s > 0 && options.warmup == ArmOptions().warmup;
}

Pilot try_arms(std::vector<AbArm>& arms, ArmOptions options) {
  options.blocks = 1;
  options.steps = std::min<int64_t>(options.steps, 5);
  if (may_warm_up_less(options)) options.warmup = kFewestWarmup;
  const ScratchFolder scratch;
  const Signals signals;
  std::vector<ArmCommand> commands;
  for (const AbArm& arm : arms)
    commands.push_back(
        arm_command(options, arm, {.folder = scratch / cat("arm", commands.size()).c_str()}));
  const int64_t begin = trace::now_ns();
  const std::vector<AbProcess> processes = interleave(commands, options, signals);
  double blocks_s = 0, steps = 0;
  for (size_t i = 0; i < arms.size(); ++i) {
    arms[i].processes.push_back(processes[i]);
    blocks_s += processes[i].blocks[0].wall_s;
    steps += double(processes[i].blocks[0].steps);
  }
  const double step_s = blocks_s / steps;
  const double arm_s = (seconds_since(begin) - blocks_s) / double(arms.size());
  return {std::max(0.0, arm_s - double(options.warmup) * step_s), step_s};
}

double Pilot::round_s(const ArmOptions& options, size_t arms) const {
  const auto steps = double(options.warmup + options.blocks * options.steps);
  return double(arms) * (start_s + steps * step_s);
}

void Pilot::fit(ArmOptions& options, size_t arms) const {
  if (options.budget_s == 0) return;
  if (may_warm_up_less(options))
    options.warmup = std::clamp(int64_t(kWarmupSeconds / step_s), kFewestWarmup, options.warmup);
  const int64_t steps = int64_t(start_s / step_s) + options.warmup;
  const int64_t fewest = std::min(kFewestBlockSteps, options.steps);
  options.blocks = std::clamp<int64_t>(steps / fewest, 1, options.blocks);
  options.steps = std::clamp<int64_t>(steps / options.blocks, 1, options.steps);
  const double round = round_s(options, arms);
  CHECK(round <= budget_left_s(options), options.verb, ": --budget: ", options.budget_s,
        " s are too short for one process of each of ", arms, " arms, about ", clock_text(round),
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
