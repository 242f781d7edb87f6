// Judge: decides from losses, skipped updates and evaluations whether a run goes on.
#pragma once
#include "core/tensor/step_state.h"
#include "trainer/log/log.h"

namespace bellows {

class Session;

// Returns true if nothing is left to do: all updates are made, or the target or train.patience ends
// the run.
bool finished(const Session& session, const Position& at);
// Returns true if train.patience ends the run.
bool out_of_patience(const TrainOptions& train, const Position& at);
// Returns the metric that ckpt.best and train.patience watch.
std::string best_metric(const Plan& plan);

// Writes to the position: sums of losses, the best evaluation, when the target was reached. Throws
// on all ranks at once.
class Judge {
 public:
  Judge(Session& session, Log& log, Position& at);

  // Takes the losses of the next updates, means over the ranks. Throws AgreedError, exit 5, after
  // train.max_nonfinite of them in a row that are not finite. Called before anything is saved or
  // evaluated, so that no non-finite loss goes unnoticed.
  void add(const std::vector<double>& losses);
  // Reads the step state and returns the number of updates that were skipped since the last call.
  // Runs at log steps only, where the host waits for the device anyway, so a captured update never
  // waits.
  int64_t watch_skips();
  // Throws AgreedError, exit 5, if updates are skipped one after the other, for any reason, unless
  // a loss scale is still falling.
  void check_stuck() const;
  // Records an evaluation, lets the schedule react to it, and returns true if it is the best so
  // far.
  bool judge(const Metrics& metrics);

  const std::vector<double>& losses() const { return losses_; }  // of this process's updates
  const StepState& seen() const { return seen_; }                // at the last watch_skips()

 private:
  void adjust_rate(const Metrics& metrics);
  bool note_best(const Position& seen, double value, bool regular);

  Session& session_;
  const Plan& plan_;
  Log& log_;
  Position& at_;
  const int64_t first_step_;
  std::vector<double> losses_;
  int64_t nonfinite_ = 0;  // consecutive non-finite losses
  StepState seen_;
  int64_t stuck_ = 0;  // skipped updates since one was applied or the scale changed
};

}  // namespace bellows
