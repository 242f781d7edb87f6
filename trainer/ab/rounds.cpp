// The rounds of a comparison.
#include "trainer/ab/rounds.h"
#include <fmt/format.h>
#include <algorithm>
#include <deque>
#include "core/base/output.h"
#include "dist/rendezvous/rendezvous.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/launch/child.h"
#include "trainer/log/log_line.h"

namespace bellows {

bool RoundPlan::add(double elapsed_s) {
  ++done_;
  if (budget_s_ > 0 && done_ == 1) {
    planned_ = std::clamp<int64_t>(int64_t(budget_s_ / elapsed_s), 1, most_);
    if (may_look_) looks_ = looks_for(planned_);
  }
  const double next_s = elapsed_s * double(done_ + 1) / double(done_);
  if (budget_s_ > 0 && next_s > budget_s_) stop();
  error_ = 0.05;
  for (const Look& look : looks_) {
    if (look.rounds == done_ && !finished()) return error_ = look.error, true;
    if (look.rounds < done_) error_ -= look.error;
  }
  return false;
}

// Counts work in steps, or in time slices if these are epochs or runs. The first slices of a round
// are warm-ups.
std::string progress_text(const ArmOptions& o, int64_t arms, const RoundPlan& plan, int64_t slices,
                          double elapsed_s) {
  const bool steps = o.measure == AbMeasure::step;
  const int64_t warmup = steps ? o.warmup : 1, block = steps ? o.steps : 1;
  const int64_t round = arms * (warmup + o.blocks * block), warmups = std::min(slices, arms);
  const int64_t done = plan.done() * round + warmups * warmup + (slices - warmups) * block;
  const double rest = double(plan.planned() * round - done) / double(done);
  return cat(o.verb, ": process ", plan.done() + 1, " of ", plan.planned(), ", slice ", slices,
             " of ", arms * (1 + o.blocks), ", ETA ",
             done > 0 ? clock_text(elapsed_s * rest) : "unknown");
}

std::string estimate_text(const Comparison& c) {
  if (c.placebo.processes.size() < 2 || c.arms.size() < 2) return "";
  const AbArm* fastest = nullptr;
  Speedup best;
  for (size_t i = 1; i < c.arms.size(); ++i)
    if (const Speedup s = speedup(c, c.arms[i]); !fastest || s.ratio > best.ratio)
      fastest = &c.arms[i], best = s;
  return fmt::format(", {} {:.3f} x ({:.3f} to {:.3f})", fastest->name, best.ratio,
                     best.interval.low, best.interval.high);
}

namespace {
// If a launcher has started several ranks, each runs the verb and starts its own rank of every arm.
// The ranks of an arm meet at a separate store, on a port that rank 0 chooses. Rank 0 also decides
// the number of rounds.
class RankLink {
 public:
  RankLink(const DistOptions& dist, double timeout_s)
      : rank_(this_rank(dist).rank),
        store_(meet(this_rank(dist), dist)),
        timeout_(timeout_of(timeout_s)) {}

  bool is_first() const { return rank_ == 0; }
  // Returns the settings of each arm of the next round, the same on all ranks. Empty if rank 0 does
  // not want another round.
  std::vector<Names> next_round(bool wanted, size_t arms) {
    if (!store_) return std::vector<Names>(wanted ? arms : 0);
    const std::string key = cat("round ", ++rounds_);
    reserved_.clear();  // the arms of the last round have ended
    if (is_first()) {
      std::string ports;
      for (size_t arm = 0; arm < arms && wanted; ++arm)
        ports += cat(reserved_.emplace_back().number(), ",");
      store_->set(key, ports);
    }
    std::vector<Names> settings;
    for (const std::string& port : split(store_->get(key, timeout_)))
      settings.push_back({cat("dist.store_port=", port)});
    return settings;
  }

 private:
  int rank_;
  std::shared_ptr<Store> store_;
  Timeout timeout_;
  int rounds_ = 0;
  std::deque<ReservedPort> reserved_;
};

// ---- the comparison

class Rounds {
 public:
  Rounds(Comparison& c, const Signals& signals, const AtLook& at_look)
      : c_(c),
        signals_(signals),
        at_look_(at_look),
        link_(load_config(c.arms.front(), c.options.overrides).plan.dist, c.options.timeout_s),
        plan_(c.options.processes,
              c.options.budget_s > 0 ? std::max(budget_left_s(c.options), 1e-3) : 0,
              at_look != nullptr) {
    arms_ = {&c.arms.front(), &c.placebo};
    for (size_t i = 1; i < c.arms.size(); ++i) arms_.push_back(&c.arms[i]);
    for (const AbArm* arm : arms_) {
      const Plan plan = load_config(*arm, c.options.overrides).plan;
      c.mantissa = std::min(c.mantissa, mantissa_bits(plan));
      c.one_thread &= plan.threads.threads == 1 && plan.data.loader.workers.num_workers == 0;
    }
  }
  Rounds(Rounds&&) = delete;

  void run() {
    const MachineClock machine;
    try {
      while (run_round()) decide();
    } catch (const RoundsEnded& end) {
      c_.signal = end.signal;
      if (plan_.done() == 0) throw;
    }
    line_.clear();
    c_.planned = plan_.planned();
    c_.busy = machine.since_begin();
    if (c_.options.ranks > 1) c_.busy.others = 0;  // other processes may be the other ranks' arms
    c_.busy.waited = share_waited();
  }

 private:
  // Each round begins with another arm, so all have each place in the order equally often. Returns
  // false if there is no other round.
  bool run_round() {
    const std::vector<Names> settings = link_.next_round(!plan_.finished(), arms_.size());
    if (settings.empty()) return false;
    std::rotate(arms_.begin(), arms_.begin() + (plan_.done() > 0), arms_.end());
    int64_t slices = 0;
    const std::string estimate = estimate_text(c_);
    const auto draw = [&] {
      line_.draw(progress_text(c_.options, std::ssize(arms_), plan_, slices, elapsed_s()) +
                 estimate);
    };
    draw();
    interleave(arms_, c_.options, signals_, {plan_.done(), c_.mantissa, settings},
               [&] { ++slices, draw(); });
    return true;
  }

  void decide() {
    const bool look = plan_.add(elapsed_s());
    c_.error = plan_.error();
    const double budget_s = c_.options.budget_s;
    if (budget_s > 0 && plan_.done() == 1 && c_.options.processes > 1)
      tell(fmt::format("{:g} s allow {} a side", budget_s, count_of(plan_.planned(), "process")));
    if (!look) return;
    const std::string outlook = at_look_(plan_.planned());
    c_.clear = outlook.empty();
    if (c_.clear) return plan_.stop();
    tell(fmt::format("{} of {} processes a side: {}", plan_.done(), plan_.planned(), outlook));
  }

  void tell(const std::string& text) {
    if (!link_.is_first()) return;
    line_.clear();
    say(cat(c_.options.verb, ": ", text));
  }

  double elapsed_s() const { return seconds_since(begin_ns_); }

  double share_waited() const {
    double waited = 0, wall = 0;  // seconds of all threads
    for (const AbArm* arm : arms_)
      for (const AbProcess& process : arm->processes)
        for (const AbBlock& block : process.blocks) {
          waited += block.waited_s;
          wall += block.wall_s * double(process.end.threads);
        }
    return waited / wall;
  }

  Comparison& c_;
  const Signals& signals_;
  const AtLook& at_look_;
  std::vector<AbArm*> arms_;  // arms in the order of this round
  RankLink link_;
  RoundPlan plan_;
  LiveLine line_;
  const int64_t begin_ns_ = trace::now_ns();
};
}  // namespace

void run_rounds(Comparison& c, const Signals& signals, const AtLook& at_look) {
  c.machine = machine_facts();
  Rounds(c, signals, at_look).run();
  c.machine["load average after"] = load_average();
}

}  // namespace bellows
