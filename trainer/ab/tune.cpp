// The search of `trainer tune`.
#include "trainer/ab/tune.h"
#include <fmt/format.h>
#include <algorithm>
#include "core/base/words.h"
#include "plan/toggle.h"
#include "trainer/ab/arm_report.h"
#include "trainer/ab/rounds.h"
#include "trainer/log/log_line.h"

namespace bellows {

namespace {
// Shares of the budget at which the two races end, and at which their winners have been added up.
constexpr double kRace[] = {0.35, 0.7}, kAdded[] = {0.5, 0.8};
constexpr int64_t kMostRounds = 8;   // limit for a race, and for adding its winners
constexpr int64_t kConfirming = 20;  // limit on the rounds of the confirmation

class Tuner {
 public:
  Tuner(TuneResult& result, const Signals& signals)
      : r_(result), o_(result.options), signals_(signals) {}

  void run() {
    plan();
    for (int pass = 0; pass < 2; ++pass) {
      const size_t before = r_.kept.size();
      race(pass);
      if (r_.kept.size() == before) break;
    }
    confirm();
  }

 private:
  void tell(const std::string& text) const { announce("tune", text); }

  AbResult comparison(std::vector<AbArm> arms) const {
    AbResult c;
    c.options = o_;
    c.arms = std::move(arms);
    c.placebo = make_placebo(c.arms.front());
    return c;
  }
  AbArm base() const { return make_arm(o_, r_.kept.empty() ? "start" : "kept so far", kept_); }
  // Returns the kept settings and those of the change, which replaces another value of its key.
  static Values with(Values set, const Change& change) {
    set[change.key] = change.set.at(change.key);
    set.insert(change.set.begin(), change.set.end());
    return set;
  }

  // Decides how many steps a process has, and which changes there is time for. If the loop waits
  // for data, changes of the data come first.
  void plan() {
    std::vector<AbArm> start = {base()};
    const Pilot pilot = try_arms(start, o_, signals_);
    const AbBlock& block = start.front().processes.front().blocks.front();
    const bool waits = block.reader_s > 0.2 * block.wall_s;
    std::stable_partition(r_.changes.begin(), r_.changes.end(), [&](const Change& c) {
      return (c.toggle && c.toggle->key_point.starts_with("data")) == waits;
    });
    ArmOptions first = o_;
    const auto fit = [&](double share, size_t changes) {  // arms besides the start and its placebo
      first.budget_s = share * o_.budget_s;
      return std::max<size_t>(pilot.fit(first, changes + 2), 2) - 2;
    };
    const size_t all = r_.changes.size();
    size_t tried = fit(kRace[0], all);
    if (tried < std::min<size_t>(all, 2)) race_end_ = 1, tried = fit(1, std::min<size_t>(all, 2));
    CHECK(tried > 0, "tune: --budget: ", o_.budget_s,
          fmt::format(" s are too short to try a change: a step takes {:.3g} s, the start of a "
                      "process {:.3g} s",
                      pilot.step_s, pilot.start_s));
    o_.warmup = first.warmup, o_.blocks = first.blocks, o_.steps = first.steps;
    for (size_t i = tried; i < all; ++i)
      r_.left_out["no time in the budget"].push_back(r_.changes[i].name());
    r_.changes.resize(tried);
    arm_s_ = pilot.round_s(o_, 1);
    tell(cat(count_of(int64_t(tried), "change"), " to try, a round of all takes about ",
             clock_text(arm_s_ * double(tried + 2))));
  }

  // Runs one round. Returns false if the first `share` of the budget has no time for it, or after a
  // signal. A round that takes longer than expected ends at the end of the budget.
  bool play(AbResult& c, double share) {
    c.options.processes = 1;
    const auto arms = double(c.arms.size() + 1);
    const double left_s = budget_left_s(o_) - (1 - share) * o_.budget_s;
    const bool first = r_.confirmation.arms.empty() && c.placebo.processes.empty();  // no round yet
    if (r_.signal || c.arms.size() == 1 || (!first && arms * arm_s_ > left_s)) return false;
    const int64_t begin = trace::now_ns();
    try {
      run_rounds(c, signals_);
    } catch (const RoundsEnded& end) {
      if (first) throw;  // there is no result to report
      r_.signal = end.signal;
      return false;
    }
    arm_s_ = seconds_since(begin) / arms;
    return true;
  }

  void race(int pass) {
    std::vector<Change*> racers;
    AbResult c = comparison({base()});
    for (Change& change : r_.changes) {
      const AbArm arm = make_arm(o_, change.name(), with(kept_, change));
      if (change.fate != Change::Fate::open || !no_other_run(base(), arm, o_.overrides).empty())
        continue;
      racers.push_back(&change);
      c.arms.push_back(arm);
    }
    for (int64_t round = 0; round < kMostRounds && play_all(c, racers, kRace[pass]); ++round)
      drop_losers(c, racers);
    if (c.placebo.processes.empty()) return;
    if (pass == 0) {
      r_.confirmation = c;
      r_.confirmation.planned = std::ssize(c.placebo.processes);
    }
    const double noise = noise_of(placebo_speedup(c));
    for (size_t i = racers.size(); i-- > 0;)
      if (racers[i]->gain.ratio <= noise) drop(c, racers, i, "no gain");
    std::ranges::stable_sort(racers, {}, [](const Change* x) { return -x->gain.ratio; });
    add_up(racers, kAdded[pass]);
  }

  bool play_all(AbResult& c, std::vector<Change*>& racers, double share) {
    while (true) {
      try {
        return play(c, std::max(race_end_, share));
      } catch (const ArmFailed& failed) {
        if (failed.arm == &c.arms.front() || failed.arm == &c.placebo) throw;
        const auto i = size_t(failed.arm - c.arms.data()) - 1;
        racers[i]->fate = Change::Fate::barred;
        drop(c, racers, i, cat("failed: ", failed.what()));
      }
    }
  }

  static void drop(AbResult& c, std::vector<Change*>& racers, size_t i, const std::string& why) {
    racers[i]->why = why;
    racers.erase(racers.begin() + long(i));
    c.arms.erase(c.arms.begin() + long(i) + 1);
  }

  void drop_losers(AbResult& c, std::vector<Change*>& racers) {
    std::vector<double> gains;
    for (size_t i = 0; i < racers.size(); ++i) {
      racers[i]->gain = speedup(c, c.arms[i + 1]);
      racers[i]->placebo = placebo_speedup(c);
      gains.push_back(racers[i]->gain.ratio);
    }
    const double middle = median(gains);
    for (size_t i = racers.size(); i-- > 0;) {
      const AbArm& arm = c.arms[i + 1];
      std::string why = broken_promise(c, arm, *racers[i]);
      if (!why.empty()) racers[i]->fate = Change::Fate::barred;
      if (why.empty()) why = loss(arm, *racers[i], middle);
      if (!why.empty()) drop(c, racers, i, why);
    }
    tell(cat("round ", c.placebo.processes.size(), ": ", count_of(int64_t(racers.size()), "change"),
             " left", estimate_text(c)));
  }

  std::string broken_promise(const AbResult& c, const AbArm& arm, const Change& change) const {
    const auto peak_memory = [](const AbArm& of) {
      return double(peak(of, &AbEnd::peak_resident_bytes) + peak(of, &AbEnd::peak_tensor_bytes));
    };
    const double memory = peak_memory(arm) / peak_memory(c.off());
    if (memory > o_.memory) return fmt::format("takes {:.2f} x the memory", memory);
    AbResult two = c;
    two.arms = {c.off(), arm};
    two.toggle = change.toggle;
    const Finding losses = compare_losses(two, two.arms.back());
    return losses.good ? "" : "the losses differ: " + losses.text;
  }

  // Returns why a change leaves the race, or "". `middle`: the median of all gains. Before there is
  // an interval, only the worse half can lose.
  static std::string loss(const AbArm& arm, const Change& change, double middle) {
    const Toggle* const toggle = change.toggle;
    if (toggle && change.value != toggle->off() && footprint(*toggle, arm) == 0) return "never ran";
    const Speedup& s = change.gain;
    const double noise = noise_of(change.placebo);
    const bool lost =
        s.rounds < kFewestRounds ? s.ratio < std::min(middle, 1 / noise) : s.interval.high < noise;
    return !lost ? "" : s.ratio < 1 / noise ? "slower" : "no gain";
  }

  // Adds the winners one by one, the fastest first, and keeps those that still gain.
  void add_up(const std::vector<Change*>& winners, double share) {
    std::vector<Change*> added;
    AbResult c = comparison({base()});
    Values set = kept_;
    Keys keys;
    for (Change* winner : winners) {
      winner->why = "slower than another value";
      if (!keys.insert(winner->key).second) continue;
      const AbArm arm = make_arm(o_, winner->name(), with(set, *winner));
      winner->why = no_other_run(c.arms.back(), arm, o_.overrides);
      if (!winner->why.empty()) continue;
      set = with(set, *winner);
      added.push_back(winner);
      c.arms.push_back(arm);
    }
    if (added.size() > 1) {
      tell(cat(count_of(int64_t(added.size()), "change"), ", one added after the other"));
      try {
        for (int64_t round = 0; round < kMostRounds && play(c, share);) ++round;
      } catch (const ArmFailed& failed) {
        tell(failed.what());
      }
    }
    const bool measured = !c.placebo.processes.empty();
    for (size_t i = 0; i < added.size(); ++i) {
      Change& change = *added[i];
      if (measured) {
        change.gain = i == 0 ? speedup(c, c.arms[1]) : speedup(c, {&c.arms[i]}, c.arms[i + 1]);
        change.placebo = placebo_speedup(c);
      }
      if (measured ? change.gain.ratio > noise_of(change.placebo) : i == 0)
        keep(change);
      else
        change.why = measured ? "adds nothing" : "no time to add it";
    }
  }

  void keep(Change& change) {
    for (Change& old : r_.changes)
      if (old.key == change.key && old.fate == Change::Fate::kept)
        old.fate = Change::Fate::barred, old.why = "slower than another value";
    std::erase_if(r_.kept, [](const Change* old) { return old->fate != Change::Fate::kept; });
    r_.kept.push_back(&change);
    kept_ = with(kept_, change);
    change.fate = Change::Fate::kept;
    change.why = "kept";
  }

  void confirm() {
    r_.answer =
        cat("nothing to gain: none of ", count_of(std::ssize(r_.changes), "change"), " is faster");
    if (r_.kept.empty()) return;
    AbResult c = comparison({make_arm(o_, "start", {}), make_arm(o_, "tuned", kept_)});
    c.toggle = weakest_promise();
    c.options.processes = kConfirming;
    tell(cat(count_of(std::ssize(r_.kept), "kept change"), " against the start"));
    try {
      if (r_.signal == 0 && 3 * arm_s_ < budget_left_s(o_))
        run_rounds(c, signals_, [&](int64_t) { return is_clear(c) ? "" : "not clear yet"; });
      r_.signal = std::max(r_.signal, c.signal);
    } catch (const RoundsEnded& end) {
      r_.signal = end.signal;
    } catch (const ArmFailed& failed) {
      r_.answer = cat("nothing to gain: all kept changes together fail: ", failed.what());
      return;
    }
    r_.gains = true;
    r_.answer = "not confirmed: no time to compare all kept changes with the start";
    if (c.placebo.processes.empty()) return;
    r_.confirmation = std::move(c);
    judge_confirmation();
  }

  // Returns the kept toggle with the weakest promise; null if a kept change is not a toggle.
  const Toggle* weakest_promise() const {
    const Toggle* weakest = r_.kept.front()->toggle;
    for (const Change* change : r_.kept) {
      if (!change->toggle) return nullptr;
      if (weakest->same < change->toggle->same) weakest = change->toggle;
    }
    return weakest;
  }

  void judge_confirmation() {
    const AbResult& c = r_.confirmation;
    const AbArm& tuned = c.on().front();
    const Verdict verdict = judge(speedup(c, tuned), placebo_speedup(c));
    const Finding losses = compare_losses(c, tuned);
    r_.gains = losses.good && (verdict == Verdict::faster || verdict == Verdict::too_few_rounds);
    r_.answer = r_.gains      ? headline(c, tuned)
                : losses.good ? "nothing to gain: not confirmed, " + headline(c, tuned)
                              : "nothing to gain: the losses differ: " + losses.text;
    if (r_.gains) return;
    for (Change& change : r_.changes)
      if (change.fate == Change::Fate::kept)
        change.fate = Change::Fate::open, change.why = "not confirmed";
    r_.kept.clear();
  }

  TuneResult& r_;
  TuneOptions& o_;
  const Signals& signals_;
  Values kept_;          // settings of the kept changes
  double race_end_ = 0;  // 1: the budget has no time for more than a race
  double arm_s_ = 0;     // time of one arm in a round, as the last one shows it
};
}  // namespace

void tune(TuneResult& result, const Signals& signals) { Tuner(result, signals).run(); }

}  // namespace bellows
