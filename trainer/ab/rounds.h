// The rounds of a comparison: how many, and when to stop.
#pragma once
#include "core/base/statistics.h"

namespace bellows {

struct AbOptions;
struct AbResult;
struct Toggle;

// Decides after each round whether another one follows. With a budget, the first round tells how
// many there are time for, and the comparison may end early (looks_for).
class RoundPlan {
 public:
  RoundPlan(int64_t processes, double budget_s) : budget_s_(budget_s), planned_(processes) {
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
  std::vector<Look> looks_;
  double spent_ = 0, look_error_ = 0;  // errors of the looks before this one, and of this one
  bool at_look_ = false, stopped_ = false;
};

// Starts and measures the arms of all rounds. After SIGINT or SIGTERM it returns the rounds that
// were complete, or throws Error (exit 130, 143) if there is none.
AbResult run_rounds(const AbOptions& options, const Toggle* toggle);  // null: options.against

}  // namespace bellows
