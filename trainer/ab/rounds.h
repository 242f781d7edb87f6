// The rounds of a comparison: order of their time slices, their number, and when to stop.
#pragma once
#include <functional>
#include "trainer/ab/arms.h"
#include "trainer/run/signals.h"

namespace bellows {

// Returns which arm runs in each of the time slices of a round: A B C C B A A B C ... Neither arm
// is always the first, and a steady drift affects all alike.
std::vector<size_t> slice_order(size_t arms, int64_t blocks);

// What is special about one round.
struct Round {
  int64_t number = 0, mantissa = 23;
  std::vector<Names> settings = {};  // of each arm in this round alone; empty: none
};
// Starts the arms one after the other and lets each run its warm-up, then options.blocks time
// slices each in slice_order. Calls `after_slice` after every slice, warm-ups included. Adds a
// process to each arm at the end. All processes have ended when it returns or throws. Throws
// ArmFailed if an arm fails (its exit code, or 9), takes longer than timeout_s for a slice (9) or
// runs outside its slice (9), and RoundsEnded within a second after a signal or the end of the
// budget, with what was measured until then.
void interleave(
    const std::vector<AbArm*>& arms, const ArmOptions& options, const Signals& signals,
    const Round& round, const std::function<void()>& after_slice = [] {});
struct RoundsEnded : Error {
  RoundsEnded(const std::string& what, int signal)
      : Error(what, signal ? static_cast<Exit>(128 + signal) : Exit::usage), signal(signal) {}
  int signal;  // SIGINT or SIGTERM (exit 130, 143), or 0: the budget was spent (exit 2)
};
struct ArmFailed : Error {
  ArmFailed(const Error& error, const AbArm* arm) : Error(error), arm(arm) {}
  const AbArm* arm;
};

// Decides after each round whether another one follows. With a budget, the first round shows how
// many rounds there is time for, and the comparison may end early (looks_for).
class RoundPlan {
 public:
  // `processes`: the most rounds. `looks`: false if the comparison never ends early.
  RoundPlan(int64_t processes, double budget_s, bool looks = true)
      : budget_s_(budget_s),
        most_(processes),
        planned_(budget_s > 0 ? 1 : processes),
        may_look_(looks) {}

  int64_t planned() const { return planned_; }
  int64_t done() const { return done_; }
  // Probability that an interval misses the truth, in a comparison that ends now.
  double error() const { return error_; }
  // Counts a round; all of them have taken `elapsed_s`. Returns true at a look: the caller then
  // calls stop() if the intervals at error() answer the question.
  bool add(double elapsed_s);
  void stop() { stopped_ = true; }
  bool finished() const { return stopped_ || done_ >= planned_; }

 private:
  double budget_s_;
  int64_t most_, planned_, done_ = 0;
  bool may_look_;
  std::vector<Look> looks_;
  double error_ = 0.05;
  bool stopped_ = false;
};

// Returns the progress after `slices` time slices of a round, with the estimated time left:
//   ab: process 2 of 10, slice 12 of 27, ETA 00:00:51
std::string progress_text(const ArmOptions& options, int64_t arms, const RoundPlan& plan,
                          int64_t slices, double elapsed_s);
// Returns the fastest arm so far, for the same line: ", amp=on 1.312 x (1.221 to 1.401)". Empty
// before the second round.
std::string estimate_text(const Comparison& c);

// Called at a look, with the comparison's error set. Returns "" if more rounds would not change the
// answer, else what further rounds can show.
using AtLook = std::function<std::string(int64_t planned)>;

// Runs the rounds of a comparison: adds a process to each arm and the placebo, and fills the rest
// of `c`. The baseline decides which ranks meet. `at_look`: null if all rounds are to run. After
// SIGINT, SIGTERM or the end of the budget it returns after the rounds that were complete, or
// throws RoundsEnded if there is none. On several ranks the budget ends no round.
void run_rounds(Comparison& c, const Signals& signals, const AtLook& at_look = nullptr);

// Duration of a comparison, as a few short processes show it.
struct Pilot {
  double start_s = 0;  // mean time to start and end an arm, without its warm-up
  double step_s = 0;
  double usable = 0.95;  // part of the time left that a round may take; the rest is a reserve
  double round_s(const ArmOptions& options, size_t arms) const;
  // With a budget, gives each process fewer steps, so that there is time for more processes,
  // because processes differ by luck: a warm-up of kWarmupSeconds, but of at least kFewestWarmup
  // steps, unless the user has chosen another than the default; and blocks of at least
  // kFewestBlockSteps that together take as long as start and warm-up. If the budget has no time
  // for that, both shrink, down to one step. Returns for how many arms a round has time.
  size_t fit(ArmOptions& options, size_t arms) const;
  // As fit(), but throws Error (exit 2) if there is no time for all arms.
  void fit_all(ArmOptions& options, size_t arms) const;
  // Number of rounds that `options` allow, and their time: "10 arms in 5 rounds, about 00:02:10".
  std::string text(const ArmOptions& options, size_t arms) const;
};
constexpr double kWarmupSeconds = 0.5;
constexpr int64_t kFewestWarmup = 10;
constexpr int64_t kFewestBlockSteps = 4;  // a mean over bursts of workers
// Runs one short process of each arm, which it adds to the arm. One rank only. Throws as
// interleave() does.
Pilot try_arms(std::vector<AbArm>& arms, const ArmOptions& options, const Signals& signals);

}  // namespace bellows
