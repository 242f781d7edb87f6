// What the plan asks to be done with each batch: an update of the model. The loop and the benches
// share it, so that a toggle acts in both alike.
#pragma once
#include "trainer/session/captured_update.h"
#include "trainer/session/tuning_window.h"

namespace bellows {

class TrainingStep {
 public:
  // Refuses what CapturedUpdate does.
  explicit TrainingStep(Session& session);

  // Before the first update, under plan.train.dry_run: a dry run, in the memory of updates.
  void prepare();
  // The loss of each micro-batch of the update. They are on the device, for the host to read.
  Tensors operator()(const Batch& batch);

  // When kernels may be tried out.
  TuningWindow& tuning() { return tuning_; }
  KernelOptions kernels() const { return tuning_.now(); }  // of the next update

 private:
  Tensors train_on(const Update& update);

  Session& session_;
  TuningWindow tuning_;
  std::unique_ptr<CapturedUpdate> captured_;  // under cuda_graph
};

// One forward and backward over a batch of the largest size, without an update: afterwards the
// allocator holds all blocks that training will ask for. Nothing else changes. Counted:
// alloc.dry_runs.
void dry_run(Session& session);

}  // namespace bellows
