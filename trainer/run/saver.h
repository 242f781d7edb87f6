// Saver: decides when a run saves, and makes the other ranks wait while rank 0 writes.
#pragma once
#include <array>
#include "trainer/log/meter.h"
#include "trainer/state/checkpoints.h"
#include "trainer/state/training_state.h"

namespace bellows {

class Consensus;
class Log;
class Session;

// Errors of writing end all ranks together: at once if ckpt.async is off, else after a later
// update.
class Saver {
 public:
  // `checkpoints`: null if nothing is saved, and on all ranks but rank 0. `meter` counts the time
  // since the run began at `at`.
  Saver(Session& session, Log& log, Consensus& consensus, Meter& meter, Checkpoints* checkpoints,
        Position& at);

  // Reports a background save that has ended. Returns true if ckpt.every_iters or a signal requests
  // a checkpoint now.
  bool poll();
  // Saves a checkpoint, unless the last one has this position. The losses up to here must be known
  // to be finite: nothing else keeps them out of a checkpoint.
  void save();
  // Saves best.safetensors, which ckpt.keep does not count. It is complete before the next ordinary
  // checkpoint, whose position refers to it.
  void save_best();
  void wait();          // until a background save has ended
  void check_folder();  // with ckpt.on_error: stop, ends the run if its folder has gone
  void note_times();    // writes the times of the phases so far to the position

 private:
  template <class Work> void guarded(const Work& work);
  template <class Work> void on_rank0(const Work& work);
  template <class Work> void write(const Work& work);
  void log_messages();

  Session& session_;
  Log& log_;
  Consensus& consensus_;
  Meter& meter_;
  Checkpoints* checkpoints_;
  Position& at_;
  const Position from_;
  int64_t writes_ = 0;                   // calls of on_rank0()
  std::array<int64_t, 3> saved_ = {-1};  // step, epoch, evaluated at the last save()
};

}  // namespace bellows
