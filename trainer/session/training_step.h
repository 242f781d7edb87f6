// One update of the model, as the plan configures it. The loop and the benchmarks
// share it, so that a toggle acts on both alike.
#pragma once
#include "plan/plan.h"
#include "trainer/session/captured_update.h"

namespace bellows {

class TrainingStep {
 public:
  // Throws Error (exit 2) as CapturedUpdate does. The Session must outlive this object.
  explicit TrainingStep(Session& session);

  // Runs dry_run() in the memory pool of updates if plan.train.dry_run is on. Call before the first
  // update.
  void prepare();
  // Runs one update. Returns the loss of each micro-batch, scalars on the device.
  Tensors operator()(const Update& update);

 private:
  Tensors train_on(const Update& update);

  Session& session_;
  // Tensors that forward writes (running statistics, sums of loss terms) and their values before
  // the update; none if no update can be skipped.
  Tensors written_, kept_;
  std::unique_ptr<CapturedUpdate> captured_;  // null unless cuda_graph is on
};

// Returns the number of micro-batches of an update with so many samples. Some norms refuse a single
// sample, so a smaller last batch is split into single samples only if full batches are, too.
int64_t micro_batches(const Plan& plan, int64_t samples);
// Throws Error, exit 2, if an update after `step` has a micro-batch of one sample and the model
// cannot train on one. All ranks must call it.
void check_micro_batches(Session& session, int64_t step);

// Runs one forward and backward over `batch` images of noise, without an update; with
// kernel_autotune, two. Afterwards no kernel has to be searched for, and the allocator has cached
// all blocks that they request. Changes nothing else. Counter: alloc.dry_runs.
void dry_run(Session& session, int64_t batch);
void dry_run(Session& session);  // in training's largest batch size
// Returns the seconds of a dry_run(), after one that prepares kernels: the fastest of three.
double time_dry_run(Session& session, int64_t batch);

}  // namespace bellows
