// The rounds of a comparison: how many, and when to stop.
#pragma once
#include "trainer/ab/arms.h"

namespace bellows {

// Decides after each round whether another one follows. With a budget, the first round tells how
// many there are time for, and the comparison may end early (looks_for).
class RoundPlan {
 public:
  // `looks`: false if the comparison never ends early.
  RoundPlan(int64_t processes, double budget_s, bool looks = true)
      : budget_s_(budget_s), planned_(processes), may_look_(looks) {
    if (budget_s_ > 0) planned_ = kFewestRounds;
  }

  int64_t planned() const { return planned_; }
  int64_t done() const { return done_; }
  // Probability that an interval misses the truth, in a comparison that ends now.
  double error() const;
  // Counts a round; all of them have taken `elapsed_s`. Returns true at a look: the caller then
  // calls stop() if the intervals at error() answer the question.
  bool add(double elapsed_s);
  void stop() { stopped_ = true; }
  bool finished() const { return stopped_ || done_ >= planned_; }

 private:
  double budget_s_;
  int64_t planned_, done_ = 0;
  bool may_look_;
  std::vector<Look> looks_;
  double spent_ = 0, look_error_ = 0;  // errors of the looks before this one, and of this one
  bool at_look_ = false, stopped_ = false;
};

// Progress of a comparison, with the estimated time left:
//   ab: process 2 of 10, time slice 12 of 27, 00:00:09 elapsed, ETA 00:00:51
// `options` must outlive it.
class AbProgress {
 public:
  AbProgress(const ArmOptions& options, size_t arms) : options_(options), arms_(int64_t(arms)) {}
  void begin_round() { slices_ = 0; }
  void add(const AbBlock& block);  // counts a finished time slice
  std::string text(const RoundPlan& plan, double elapsed_s) const;

 private:
  const ArmOptions& options_;
  int64_t arms_, slices_ = 0;  // slices: finished in this round
  double work_ = 0;            // of all rounds: steps with AbMeasure::step, else slices
};

// Called at a look, with result.error set. Returns true if more rounds would not change the answer.
// Else sets `outlook` to what they can show.
using AtLook = std::function<bool(std::string& outlook, int64_t planned)>;

// Starts and measures the arms of all rounds with result.options: adds a process to each arm, and
// fills `result`. The first arm decides which ranks meet. `at_look`: null if all rounds are to run.
// After SIGINT or SIGTERM it returns after the rounds that were complete, or throws Error (exit
// 130, 143) if there is none.
void run_rounds(const std::vector<AbArm*>& arms, RoundsResult& result,
                const AtLook& at_look = nullptr);

// Duration of a comparison, as a few short processes show it.
struct Pilot {
  double start_s = 0;  // to start and end one arm, in the mean; without its warm-up
  double step_s = 0;
  double round_s(const ArmOptions& options, size_t arms) const;
  // With a budget, gives each process fewer steps, so that there is time for more processes,
  // because processes differ by luck: a warm-up of kWarmupSeconds, but of at least kFewestWarmup
  // steps, unless the user has chosen another than the default; and blocks of at least
  // kFewestBlockSteps that together take as long as start and warm-up.
  void fit(ArmOptions& options) const;
  // Number of rounds that `options` allow, and their time: "10 arms in 5 rounds, about 00:02:10".
  std::string text(const ArmOptions& options, size_t arms) const;
};
constexpr double kWarmupSeconds = 0.5;
constexpr int64_t kFewestWarmup = 10;
constexpr int64_t kFewestBlockSteps = 4;  // workers deliver in bursts: only the mean of some counts
// Runs one short process of each arm, which it adds to the arm. One rank only.
Pilot try_arms(const std::vector<AbArm*>& arms, ArmOptions options);

}  // namespace bellows
