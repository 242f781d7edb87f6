// Parts of the training loop: what the ranks of a run decide together, so that all of them stop,
// save or fail after the same update; a judge, a saver and gauges, which share its position.
#pragma once
#include <array>
#include <optional>
#include "core/base/trace.h"
#include "core/tensor/step_state.h"
#include "data/loader/batch.h"
#include "dist/groups/process_group.h"
#include "trainer/log/log.h"
#include "trainer/log/meter.h"
#include "trainer/log/nvml.h"
#include "trainer/run/signals.h"
#include "trainer/state/checkpoints.h"

namespace bellows {

class Session;

// An error that every rank throws after the same update, so none has to report it.
struct AgreedError : Error {
  using Error::Error;
};

// After each update every rank contributes its signals, its loss and its failure to one small
// all_reduce. Its result is read after the next update, so nothing waits for it: ranks act one
// update later. In a world of one there is no collective, and everything is known at once. For the
// compute thread only.
class Consensus {
 public:
  // `group`: for tensors in host memory.
  Consensus(ProcessGroup& group, Signals& signals) : group_(group), signals_(signals) {}

  // Ends an update. `loss`: mean over this rank's samples, times their weight; null if not known
  // yet, which must then be so on all ranks. Throws as settle() does.
  void end_update(const double* loss);
  // Waits for the results of the last update. Throws an AgreedError on all ranks if one has
  // announced a failure, with its exit code.
  void settle();
  // Like settle(), but also shares everything that happened since the last update.
  void settle_now();
  // Announces that the run has to end with this error. In a world of one, throws the error.
  void announce(const Error& error);

  int stop() const;          // SIGINT or SIGTERM once a rank has received it, else 0
  bool take_save_request();  // true once after any number of SIGUSR1
  // Means over the ranks of the losses of end_update(). Clears the list.
  std::vector<double> take_losses() { return std::exchange(losses_, {}); }

  // Returns the means over the ranks of values that every rank has. Waits for the other ranks.
  std::vector<double> means(const std::vector<double>& mine);
  // Returns the values of all ranks, by rank: m values of each. Waits for the other ranks.
  std::vector<double> gather(const std::vector<double>& mine);
  bool alone() const { return group_.world() == 1; }

 private:
  void contribute(const double* loss);

  ProcessGroup& group_;
  Signals& signals_;
  Tensor votes_;                  // f64, on their way
  Work work_ = {};                // without wait: no votes are on their way
  std::optional<Error> failure_;  // failure of this rank
  int stop_ = 0;
  bool save_ = false;
  std::vector<double> losses_;
};

// Returns true if nothing is left to do: all updates are made, or the target or train.patience ends
// the run.
bool finished(const Session& session, const Position& at);
bool out_of_patience(const TrainOptions& train, const Position& at);  // train.patience ends the run
std::string best_metric(const Plan& plan);  // metric that ckpt.best and train.patience watch

// Objects that the loop and its parts share. `meter_` counts the time since the process began.
struct Running {
  Session& session_;
  const Plan& plan_;
  Log& log_;
  Consensus& consensus_;
  Meter& meter_;
  Position& at_;
};

// Decides from losses, skipped updates and evaluations whether a run goes on. Writes to the
// position: sums of losses, the best evaluation, when the target was reached. Throws on all ranks
// at once.
class Judge : Running {
 public:
  explicit Judge(const Running& running);

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

  const std::vector<double>& losses() const { return losses_; }  // losses of this process's updates
  const StepState& seen() const { return seen_; }  // state read by the last watch_skips()

 private:
  const int64_t first_step_ = at_.step;
  std::vector<double> losses_;
  int64_t nonfinite_ = 0;  // consecutive non-finite losses
  StepState seen_;
  int64_t stuck_ = 0;  // skipped updates since one was applied or the scale changed
};

// Decides when a run saves, and makes the other ranks wait while rank 0 writes. Errors of writing
// end all ranks together: at once if ckpt.async is off, else after a later update.
class Saver : Running {
 public:
  // `checkpoints`: null if nothing is saved, and on all ranks but rank 0.
  Saver(const Running& running, Checkpoints* checkpoints)
      : Running(running), checkpoints_(checkpoints) {}

  // Reports a background save that has ended. Returns true if ckpt.every_iters or a signal requests
  // a checkpoint now.
  bool poll();
  // Saves a checkpoint, unless the last one has this position. The losses up to here must be known
  // to be finite: nothing else keeps them out of a checkpoint.
  void save();
  // Saves best.safetensors, which ckpt.keep does not count. It is complete before the next ordinary
  // checkpoint, whose position refers to it.
  void save_best();
  void wait();          // waits until a background save has ended
  void check_folder();  // with ckpt.on_error: stop, ends the run if its folder has gone
  void note_times();    // writes the times of the phases so far to the position

 private:
  template <class Work> void guarded(const Work& work);
  template <class Work> void on_rank0(const Work& work);
  template <class Work> void write(const Work& work);
  void log_messages();

  Checkpoints* checkpoints_;
  const Position from_ = at_;
  int64_t writes_ = 0;                   // calls of on_rank0()
  std::array<int64_t, 3> saved_ = {-1};  // step, epoch, evaluated at the last save()
};

// Measures the values of a log window besides its loss and its costs, for metrics.jsonl and
// TensorBoard.
class Gauges : Running {
 public:
  explicit Gauges(const Running& running);

  void begin_update(const BatchCounts& counts);
  void end_epoch();
  // Returns the values since the last call. `state`: the step state at the end of the window. All
  // ranks call it together.
  std::pair<Scalars, ScalarLists> take(const LogPoint& window, const StepState& state);
  // Returns "cpu: got 35 % of 2 cores" if the process got too few, else "". Call it before take().
  std::string news() { return cpu_.news(); }
  CpuUse cpu() const { return cpu_.use(); }  // since construction
  // Returns the peaks so far of the tensors and of the process of each rank, in bytes; empty in a
  // world of one. All ranks call it together.
  std::vector<double> memory_by_rank() const;

 private:
  Scalars loss_terms();
  ScalarLists by_rank(double reader_cost);
  double training_s() const;

  CpuShare cpu_;
  LoadMeter load_;                 // load of the machine, once a second
  std::optional<GpuMonitor> gpu_;  // load of the GPU, if training is on one
  BatchCounts padding_;            // counts of the window; imbalance of its worst round
  trace::Counter& waited_ = trace::counter("dist.exposed_wait_ns");
  int64_t waited_before_ = waited_.value(), step_before_ = at_.step;  // in the last by_rank()
  // epoch_end_s_: training_s() at the end of an epoch, until the first batch of the next one.
  // epoch_gap_s_: time between the two, which the first log line of an epoch reports.
  std::optional<double> epoch_end_s_, epoch_gap_s_;
};

}  // namespace bellows
