// The training loop.
#pragma once
#include <functional>
#include "trainer/log/log.h"
#include "trainer/log/meter.h"
#include "trainer/run/signals.h"
#include "trainer/state/checkpoints.h"

namespace bellows {

struct Outcome {
  Position at;                     // end of training
  std::vector<double> losses;      // one per update of this process; means over the ranks
  std::optional<Metrics> metrics;  // result of the last evaluation
  Meter meter;
  int signal = 0;  // SIGINT or SIGTERM if one ended the run, else 0
  CpuUse cpu;
  // On several ranks: for each of them the peak of tensors and that of the process, in bytes.
  std::vector<double> memory_by_rank;
};

// Called after each update. Its time counts for the run, but not for any phase.
using AfterUpdate = std::function<void(const Position&)>;

// Trains from that position until the plan, the target, train.patience, the profile window or a
// signal ends the run. `checkpoints`: null if nothing is saved, and on all ranks but rank 0. Throws
// Error: exit 5 with train.on_nonfinite: stop, for non-finite losses or if updates are skipped one
// after the other and no loss scale falls; 8 if a checkpoint cannot be written; and errors from
// data and ops.
Outcome train(Session& session, Log& log, Checkpoints* checkpoints, Signals& signals,
              const Position& from = {}, const AfterUpdate& after_update = {});

}  // namespace bellows
