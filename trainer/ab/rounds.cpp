#include "trainer/ab/rounds.h"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <deque>
#include <nlohmann/json.hpp>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/device/timer.h"
#include "core/device/topology.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/launch/child.h"
#include "trainer/log/log_line.h"
#include "trainer/log/system.h"
#include "trainer/state/run_folder.h"

namespace bellows {

// ---- number of rounds

double RoundPlan::error() const { return at_look_ ? look_error_ : 0.05 - spent_; }

bool RoundPlan::add(double elapsed_s) {
  if (at_look_) spent_ += look_error_;
  ++done_;
  if (budget_s_ > 0 && done_ == 1) {
    planned_ = std::max(kFewestRounds, int64_t(budget_s_ / elapsed_s));
    if (may_look_) looks_ = looks_for(planned_);
  }
  const double next_s = elapsed_s * double(done_ + 1) / double(done_);
  if (budget_s_ > 0 && done_ >= kFewestRounds && next_s > 1.1 * budget_s_) stop();
  const auto look = std::ranges::find(looks_, done_, &Look::rounds);
  at_look_ = !finished() && look != looks_.end();
  if (at_look_) look_error_ = look->error;
  return at_look_;
}

// ---- progress

void AbProgress::add(const AbBlock& block) {
  ++slices_;
  work_ += options_.measure == AbMeasure::step ? double(block.steps) : 1;
}

std::string AbProgress::text(const RoundPlan& plan, double elapsed_s) const {
  const ArmOptions& o = options_;
  const int64_t slices = arms_ * (1 + o.blocks), steps = arms_ * (o.warmup + o.blocks * o.steps);
  const double all = double(plan.planned() * (o.measure == AbMeasure::step ? steps : slices));
  return cat(o.verb, ": process ", plan.done() + 1, " of ", plan.planned(), ", time slice ",
             slices_, " of ", slices, ", ", clock_text(elapsed_s), " elapsed, ETA ",
             work_ > 0 ? clock_text(elapsed_s * (all - work_) / work_) : "unknown");
}

// ---- arms

namespace {
// Where a launcher has started several ranks, each runs the verb and starts its own rank of every
// arm. The ranks of an arm meet at a store of their own, on a port that rank 0 chooses. Rank 0 also
// decides how many rounds there are.
class RankLink {
 public:
  RankLink(const DistOptions& dist, double timeout_s)
      : rank_(this_rank(dist).rank),
        store_(meet(this_rank(dist), dist)),
        timeout_(timeout_of(timeout_s)) {}

  bool is_first() const { return rank_ == 0; }
  // Returns the setting for the next arm, the same on all ranks; none in a world of one.
  Names next_arm() {
    if (!store_) return {};
    return {cat("dist.store_port=",
                agreed([&] { return std::to_string(reserved_.emplace_back().number()); }))};
  }
  bool go_on(bool wanted) {
    reserved_.clear();  // the arms of the last round have ended
    return store_ ? agreed([&] { return wanted ? "on" : "end"; }) == "on" : wanted;
  }

 private:
  // Returns choose() of rank 0.
  template <class Choose> std::string agreed(const Choose& choose) {
    const std::string key = cat("arms ", ++agreements_);
    if (is_first()) store_->set(key, choose());
    return store_->get(key, timeout_);
  }

  int rank_;
  std::shared_ptr<Store> store_;
  Timeout timeout_;
  int agreements_ = 0;
  std::deque<ReservedPort> reserved_;
};
}  // namespace

static ArmCommand arm_command(const ArmOptions& options, const AbArm& arm,
                              const ArmProcessOptions& process, const Names& more) {
  Names argv = {"/proc/self/exe", "ab"};
  const auto add = [&](const char* option, const auto& value) {
    argv.insert(argv.end(), {option, cat(value)});
  };
  add("--arm-folder", process.folder);
  add("--parent", getpid());
  add("--round", process.round);
  add("--mantissa", process.mantissa);
  if (process.placebo) argv.push_back("--placebo");
  add("--config", arm.config);
  for (const std::string& setting : arm.set) add("--set", setting);
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

static double share_waited(const std::vector<AbArm*>& arms) {
  double waited = 0, wall = 0;  // seconds of all threads
  for (const AbArm* arm : arms)
    for (const AbProcess& process : arm->processes)
      for (const AbBlock& block : process.blocks) {
        waited += block.waited_s;
        wall += block.wall_s * double(process.end.threads);
      }
  return waited / wall;
}

// ---- the comparison

namespace {
class Comparison {
 public:
  Comparison(const std::vector<AbArm*>& arms, RoundsResult& result, const AtLook& at_look)
      : options_(result.options),
        at_look_(at_look),
        arms_(arms),
        result_(result),
        link_(config_of(*arms.front(), options_.overrides).plan.dist, options_.timeout_s),
        plan_(options_.processes, options_.budget_s, at_look != nullptr),
        progress_(options_, arms.size()) {
    for (const AbArm* arm : arms) {
      const Plan plan = config_of(*arm, options_.overrides).plan;
      result.mantissa = std::min(result.mantissa, mantissa_bits(plan));
      result.one_thread &= plan.threads.threads == 1 && plan.data.loader.workers.num_workers == 0;
    }
  }
  Comparison(Comparison&&) = delete;

  void run() {
    const MachineClock machine;
    try {
      while (link_.go_on(!plan_.finished())) {
        run_round();
        decide();
      }
    } catch (const Error& error) {
      result_.signal = static_cast<int>(error.exit) - 128;
      if ((result_.signal != SIGINT && result_.signal != SIGTERM) || plan_.done() == 0) throw;
    }
    line_.clear();
    result_.planned = plan_.planned();
    result_.busy = machine.since_begin();
    if (options_.ranks > 1) result_.busy.others = 0;  // they may be the other ranks' arms
    result_.busy.waited = share_waited(arms_);
  }

 private:
  // Each round begins with another arm, so all have each place in the order equally often.
  void run_round() {
    std::vector<AbArm*> arms = arms_;
    std::rotate(arms.begin(), arms.begin() + plan_.done() % int64_t(arms.size()), arms.end());
    std::vector<ArmCommand> commands;
    for (const AbArm* arm : arms)
      commands.push_back(arm_command(options_, *arm,
                                     {.folder = scratch_ / cat("arm", commands.size()).c_str(),
                                      .round = plan_.done(),
                                      .placebo = arm->placebo,
                                      .mantissa = result_.mantissa},
                                     link_.next_arm()));
    progress_.begin_round(), draw();
    const auto processes = interleave(commands, options_, signals_,
                                      [&](const AbBlock& block) { progress_.add(block), draw(); });
    for (size_t i = 0; i < arms.size(); ++i) arms[i]->processes.push_back(processes[i]);
  }

  void draw() { line_.draw(progress_.text(plan_, seconds_since(begin_ns_))); }

  void decide() {
    const double elapsed_s = seconds_since(begin_ns_);
    const bool look = plan_.add(elapsed_s);
    result_.error = plan_.error();
    if (options_.budget_s > 0 && plan_.done() == 1) tell(budget_text(elapsed_s));
    if (!look) return;
    std::string outlook;
    result_.clear = at_look_(outlook, plan_.planned());
    if (result_.clear) return plan_.stop();
    tell(fmt::format("{} of {} processes a side: {}", plan_.done(), plan_.planned(), outlook));
  }

  std::string budget_text(double round_s) const {
    const double all_s = round_s * double(plan_.planned());
    if (all_s <= 1.1 * options_.budget_s)
      return fmt::format("{:g} s allow {} processes a side", options_.budget_s, plan_.planned());
    return fmt::format("{:g} s are too short for {} processes a side, the fewest: about {}",
                       options_.budget_s, plan_.planned(), clock_text(all_s));
  }

  void tell(const std::string& text) {
    if (!link_.is_first()) return;
    line_.clear();
    say(cat(options_.verb, ": ", text));
  }

  const ArmOptions& options_;
  const AtLook& at_look_;
  const std::vector<AbArm*> arms_;
  RoundsResult& result_;
  const ScratchFolder scratch_;
  const Signals signals_;
  RankLink link_;
  RoundPlan plan_;
  AbProgress progress_;
  LiveLine line_;
  const int64_t begin_ns_ = trace::now_ns();
};
}  // namespace

// ---- the machine

static std::string load_average() {
  double load[3] = {};
  getloadavg(load, 3);
  return fmt::format("{:.2f} {:.2f} {:.2f}", load[0], load[1], load[2]);
}

static std::string governor() {
  const std::string name = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return name.empty() ? "unknown" : name;
}

// A subset of environment(): the report is published, so it names no host and no folder.
static Json machine_before() {
  const Json all = environment();
  Json machine = {{"date", date_text(wall_seconds())},
                  {"cpu", all["cpu"]},
                  {"cores", all["cores"]},
                  {"governor", governor()},
                  {"load average before", load_average()}};
  for (const char* key : {"kernel", "commit", "versions", "variables"})
    if (const Json& value = all[key]; !value.empty() && value != Json("")) machine[key] = value;
  return machine;
}

void run_rounds(const std::vector<AbArm*>& arms, RoundsResult& result, const AtLook& at_look) {
  result.machine = machine_before();
  Comparison(arms, result, at_look).run();
  result.machine["load average after"] = load_average();
}

// ---- the pilot

// True within a budget, unless the user has chosen another warm-up than the default.
static bool may_warm_up_less(const ArmOptions& options) {
  return options.budget_s > 0 && options.warmup == ArmOptions().warmup;
}

Pilot try_arms(const std::vector<AbArm*>& arms, ArmOptions options) {
  options.blocks = 1;
  options.steps = std::min<int64_t>(options.steps, 5);
  if (may_warm_up_less(options)) options.warmup = kFewestWarmup;
  const ScratchFolder scratch;
  const Signals signals;
  std::vector<ArmCommand> commands;
  for (const AbArm* arm : arms)
    commands.push_back(
        arm_command(options, *arm, {.folder = scratch / cat("arm", commands.size()).c_str()}, {}));
  const int64_t begin = trace::now_ns();
  const auto processes = interleave(commands, options, signals);
  double blocks_s = 0, steps = 0;
  for (size_t i = 0; i < arms.size(); ++i) {
    arms[i]->processes.push_back(processes[i]);
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

void Pilot::fit(ArmOptions& options) const {
  if (options.budget_s == 0) return;
  if (may_warm_up_less(options))
    options.warmup = std::clamp(int64_t(kWarmupSeconds / step_s), kFewestWarmup, options.warmup);
  const int64_t steps = int64_t(start_s / step_s) + options.warmup;
  const int64_t fewest = std::min(kFewestBlockSteps, options.steps);
  options.blocks = std::clamp<int64_t>(steps / fewest, 1, options.blocks);
  options.steps = std::clamp<int64_t>(steps / options.blocks, 1, options.steps);
}

std::string Pilot::text(const ArmOptions& options, size_t arms) const {
  const double round = round_s(options, arms);
  const int64_t rounds = options.budget_s > 0
                             ? std::max(kFewestRounds, int64_t(options.budget_s / round))
                             : options.processes;
  const double total_s = round * double(rounds);
  std::string text =
      fmt::format("{} arms in {} of {} steps, about {}", arms, count_of(rounds, "round"),
                  options.warmup + options.blocks * options.steps, clock_text(total_s));
  if (options.budget_s > 0 && total_s > 1.1 * options.budget_s)
    text += fmt::format(", more than the budget of {:g} s: {} rounds are the fewest",
                        options.budget_s, kFewestRounds);
  return text;
}

}  // namespace bellows
