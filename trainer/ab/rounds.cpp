#include "trainer/ab/rounds.h"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <deque>
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/device/timer.h"
#include "dist/rendezvous/rendezvous.h"
#include "trainer/ab/ab.h"
#include "trainer/launch/reserved_port.h"
#include "trainer/state/scratch_folder.h"

namespace bellows {

// ---- number of rounds

double RoundPlan::error() const { return at_look_ ? look_error_ : 0.05 - spent_; }

bool RoundPlan::add(double elapsed_s) {
  if (at_look_) spent_ += look_error_;
  ++done_;
  if (budget_s_ > 0 && done_ == 1) {
    planned_ = std::max(kFewestRounds, static_cast<int64_t>(budget_s_ / elapsed_s));
    looks_ = looks_for(planned_);
  }
  const double next_s = elapsed_s * static_cast<double>(done_ + 1) / static_cast<double>(done_);
  if (budget_s_ > 0 && done_ >= kFewestRounds && next_s > 1.1 * budget_s_) stop();
  const auto look = std::ranges::find(looks_, done_, &Look::rounds);
  at_look_ = !finished() && look != looks_.end();
  if (at_look_) look_error_ = look->error;
  return at_look_;
}

// ---- arms

namespace {
// Where a launcher has started several ranks, each runs `ab` and starts its own rank of every arm.
// The ranks of an arm meet at a store of their own, on a port that rank 0 chooses. Rank 0 also
// decides how many rounds there are.
class RankLink {
 public:
  RankLink(const DistOptions& dist, double timeout_s)
      : rank_(this_rank(dist).rank),
        store_(meet(this_rank(dist), dist)),
        timeout_(static_cast<int64_t>(1000 * timeout_s)) {}

  bool is_first() const { return rank_ == 0; }
  // Returns the setting for the next arm, the same on all ranks; none in a world of one.
  Names next_arm() {
    if (!store_) return {};
    return {cat("dist.store_port=",
                agreed([&] { return std::to_string(reserved_.emplace_back().number()); }))};
  }
  bool go_on(bool wanted) {
    return store_ ? agreed([&] { return wanted ? "on" : "end"; }) == "on" : wanted;
  }

 private:
  // Returns choose() of rank 0.
  template <class Choose> std::string agreed(const Choose& choose) {
    const std::string key = cat("ab ", ++agreements_);
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

static ArmCommand arm_command(const AbOptions& options, const AbArm& arm,
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
  if (!options.toggle.empty()) add("--toggle", options.toggle), add("--value", arm.value);
  if (options.measure == AbMeasure::epoch) add("--measure", "epoch");
  if (options.measure == AbMeasure::target)
    add("--time-to", cat(options.target.metric, "=", options.target.value));
  add("--steps", options.steps);
  add("--blocks", options.blocks);
  add("--warmup", options.warmup);
  argv.insert(argv.end(), options.overrides.begin(), options.overrides.end());
  argv.insert(argv.end(), more.begin(), more.end());
  return {arm.name, argv};
}

// Returns a result without processes.
static AbResult result_for(const AbOptions& options, const Toggle* toggle) {
  AbResult result = {.options = options, .toggle = toggle};
  if (toggle) result.forced_off = forced_off(options, *toggle);
  if (!toggle) result.differences = check_against(options);
  const auto add = [&](AbArm& arm, const std::string& config, const std::string& value,
                       const char* note) {
    AbOptions of_arm = options;
    of_arm.config = config;
    const Plan plan = arm_plan(of_arm, toggle, value);
    arm = {.name = cat(toggle ? cat(toggle->name, "=", value) : config, note),
           .config = config,
           .value = value};
    result.mantissa = std::min(result.mantissa, mantissa_bits(plan));
    result.one_thread =
        result.one_thread && plan.threads.threads == 1 && plan.data.loader.workers.num_workers == 0;
  };
  const std::string off = toggle ? toggle->off() : "";
  add(result.off, options.config, off, "");
  add(result.placebo, options.config, off, " again");
  for (const std::string& value : options.values)
    add(result.on.emplace_back(), options.config, value, "");
  if (!toggle) add(result.on.emplace_back(), options.against, "", "");
  return result;
}

static double share_waited(const std::vector<AbArm*>& arms) {
  double waited = 0, wall = 0;  // seconds of all threads
  for (const AbArm* arm : arms)
    for (const AbProcess& process : arm->processes)
      for (const AbBlock& block : process.blocks) {
        waited += block.waited_s;
        wall += block.wall_s * static_cast<double>(process.end.threads);
      }
  return waited / wall;
}

// ---- the comparison

namespace {
class Comparison {
 public:
  Comparison(const AbOptions& options, const Toggle* toggle)
      : options_(options),
        result_(result_for(options, toggle)),
        link_(arm_plan(options, toggle, result_.off.value).dist, options.timeout_s),
        plan_(options.processes, options.budget_s),
        progress_(options, 2 + result_.on.size(), plan_.planned()) {
    arms_ = {&result_.off, &result_.placebo};
    for (AbArm& arm : result_.on) arms_.push_back(&arm);
  }
  Comparison(Comparison&&) = delete;

  AbResult run() {
    for (const std::string& difference : result_.differences) tell(difference);
    if (!result_.forced_off.empty()) tell(forced_off_text(result_));
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
    progress_.clear();
    result_.planned = plan_.planned();
    result_.busy = machine.since_begin();
    if (options_.ranks > 1) result_.busy.others = 0;  // they may be the other ranks' arms
    result_.busy.waited = share_waited(arms_);
    return std::move(result_);
  }

 private:
  // Each round begins with another arm, so all have each place in the order equally often.
  void run_round() {
    std::vector<AbArm*> arms = arms_;
    std::rotate(arms.begin(), arms.begin() + plan_.done() % static_cast<int64_t>(arms.size()),
                arms.end());
    std::vector<ArmCommand> commands;
    for (const AbArm* arm : arms)
      commands.push_back(arm_command(options_, *arm,
                                     {.folder = scratch_ / cat("arm", commands.size()).c_str(),
                                      .round = plan_.done(),
                                      .placebo = arm == &result_.placebo,
                                      .mantissa = result_.mantissa},
                                     link_.next_arm()));
    progress_.begin_round();
    const auto processes = interleave(commands, options_.blocks, options_.timeout_s, signals_,
                                      [&](const AbBlock& block) { progress_.add(block); });
    for (size_t i = 0; i < arms.size(); ++i) arms[i]->processes.push_back(processes[i]);
  }

  void decide() {
    const bool look = plan_.add(seconds_since(begin_ns_));
    result_.error = plan_.error();
    progress_.set_rounds(plan_.planned());
    if (options_.budget_s > 0 && plan_.done() == 1)
      tell(fmt::format("{:g} s allow {} processes a side", options_.budget_s, plan_.planned()));
    if (!look) return;
    result_.clear = is_clear(result_);
    if (result_.clear) return plan_.stop();
    tell(fmt::format("{} of {} processes a side: differences from {:.1f} % on will show",
                     plan_.done(), plan_.planned(), 100 * resolution(result_, plan_.planned())));
  }

  void tell(const std::string& text) {
    if (!link_.is_first()) return;
    progress_.clear();
    say("ab: " + text);
  }

  const AbOptions& options_;
  const ScratchFolder scratch_;
  const Signals signals_;
  AbResult result_;
  std::vector<AbArm*> arms_;
  RankLink link_;
  RoundPlan plan_;
  AbProgress progress_;
  const int64_t begin_ns_ = trace::now_ns();
};
}  // namespace

AbResult run_rounds(const AbOptions& options, const Toggle* toggle) {
  return Comparison(options, toggle).run();
}

}  // namespace bellows
