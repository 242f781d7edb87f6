// The training loop.
#pragma once
#include <functional>
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
  Position at;                     // where it ended
  std::vector<double> losses;      // of each update
  std::optional<Metrics> metrics;  // of the last evaluation
  Meter meter;
  int signal = 0;  // SIGINT or SIGTERM, if that ended it
  std::string cpu;  // what CpuShare has to say of the run
};

class Loop {
 public:
  // checkpoints: null where nothing is saved.
  Loop(Session& session, Log& log, Checkpoints* checkpoints, const Position& from = {});
  // Trains to the end of the plan, the target, or a signal. Throws Error: exit 5 for a loss that is
  // not finite and for a loss scale at its floor that skips all updates, 8 for a checkpoint that
  // cannot be written, and what data and ops throw. `pause` is called after each update; the time
  // it takes is the run's, but of no phase's cost.
  Outcome run(const std::function<void()>& pause = {});
  const Position& position() const { return at_; }

 private:
  bool done() const;
  void run_epoch();
  void look_at_size();
  void end_update(const Update& update);
  void look_after_checkpoints();
  void tell();  // what the checkpoints have to say
  void end_epoch();
  void read_losses();
  void check_losses();
  void end_window();
  void look_at_scale(const StepState& now);
  void check_scale() const;
  void evaluate_now();
  void adjust_rate();
  void note_best(const Position& seen, bool regular);
  void save();
  void save_best();
  LogPoint point() const;
  Scalars gauges();  // what a window's metrics hold besides the line

  Session& session_;
  const Plan& plan_;
  Log& log_;
  Checkpoints* checkpoints_;
  const Position from_;
  Position at_;
  Meter meter_;
  Losses losses_;
  CpuShare cpu_;
  std::optional<Nvml> nvml_;  // of the GPU, where training is on one
  ProfileWindow profile_;
  TrainingStep train_on_;
  Shape picture_;  // (C, H, W), where pictures grow
  Signals signals_;
  std::function<void()> pause_;
  size_t checked_ = 0;     // of the losses known
  int64_t nonfinite_ = 0;  // losses in a row
  StepState seen_;         // at the last log step, where fp16 scales
  int64_t stuck_ = 0;      // updates since one was applied, the scale standing still
  LogPoint last_;          // line
  std::optional<Position> saved_;
  std::optional<Metrics> metrics_;  // of the last evaluation of this process
};

// Nothing is left to do: all updates are made, or the target or train.patience ends the run.
bool finished(const Session& session, const Position& at);
// train.patience ends the run.
bool out_of_patience(const TrainOptions& train, const Position& at);
// Metric that ckpt.best and train.patience watch.
std::string best_metric(const Plan& plan);

}  // namespace bellows
