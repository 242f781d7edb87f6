// The training loop.
#pragma once
#include <functional>
#include "core/tensor/step_state.h"
#include "trainer/log/log.h"
#include "trainer/log/meter.h"
#include "trainer/log/nvml.h"
#include "trainer/run/cpu_share.h"
#include "trainer/run/signals.h"
#include "trainer/session/losses.h"
#include "trainer/session/profile_window.h"
#include "trainer/session/training_step.h"
#include "trainer/state/checkpoints.h"

namespace bellows {

struct Outcome {
  Position at;                     // where training ended
  std::vector<double> losses;      // one per update of this process
  std::optional<Metrics> metrics;  // of the last evaluation
  Meter meter;
  int signal = 0;   // SIGINT or SIGTERM if one ended the run, else 0
  std::string cpu;  // CpuShare::line() of the run, or ""
};

class Loop {
 public:
  // `checkpoints`: null if nothing is saved. `from`: position at which the run resumes. The
  // Session, the Log and the Checkpoints must outlive the loop.
  Loop(Session& session, Log& log, Checkpoints* checkpoints, const Position& from = {});
  // Trains until the plan, the target, train.patience, the profile window or a signal ends the run.
  // Throws Error: exit 5 with train.on_nonfinite: stop, for non-finite losses or if the loss scale
  // is at its minimum and all updates are skipped; 8 if a checkpoint cannot be written; and errors
  // from data and ops. `pause` is called after each update; its time belongs to the run, but not to
  // the cost of any phase.
  Outcome run(const std::function<void()>& pause = {});
  const Position& position() const { return at_; }

 private:
  bool done() const;
  void run_epoch();
  void update_image_size();
  void end_update(const Update& update);
  void poll_checkpoints();
  void log_checkpoint_messages();  // logs messages of the checkpoints
  void end_epoch();
  void read_losses();
  void check_losses();
  void end_window();
  void watch_loss_scale(const StepState& now);
  void check_scale() const;
  void evaluate_now();
  void adjust_rate();
  void note_best(const Position& seen, bool regular);
  void save();
  void save_best();
  LogPoint point() const;
  Scalars gauges();  // values of a window that are not in its log line

  Session& session_;
  const Plan& plan_;
  Log& log_;
  Checkpoints* checkpoints_;
  const Position from_;
  Position at_;
  Meter meter_;
  Losses losses_;
  CpuShare cpu_;
  std::optional<Nvml> nvml_;  // of the GPU, if training is on one
  ProfileWindow profile_;
  TrainingStep train_on_;
  Shape picture_;  // (C, H, W) of this epoch, with progressive_resize
  Signals signals_;
  std::function<void()> pause_;
  size_t checked_ = 0;     // number of known losses that are checked
  int64_t nonfinite_ = 0;  // consecutive non-finite losses
  StepState seen_;         // at the last log step, with fp16 loss scaling
  int64_t stuck_ = 0;      // skipped updates since one was applied or the scale changed
  LogPoint last_;          // values of the last log line
  std::optional<Position> saved_;
  std::optional<Metrics> metrics_;  // of the last evaluation in this process
};

// Returns true if nothing is left to do: all updates are made, or the target or train.patience ends
// the run.
bool finished(const Session& session, const Position& at);
// Returns true if train.patience ends the run.
bool out_of_patience(const TrainOptions& train, const Position& at);
// Returns the metric that ckpt.best and train.patience watch.
std::string best_metric(const Plan& plan);

}  // namespace bellows
