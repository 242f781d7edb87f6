// One update of the model, as the plan configures it. The loop and the benchmarks
// share it, so that a toggle acts on both alike.
#pragma once
#include <functional>
#include <memory>
#include "core/device/allocator.h"
#include "core/device/graph.h"
#include "data/loader/batch.h"
#include "plan/plan.h"

namespace bellows {

class Session;

// The toggle cuda_graph: captures one update after a few uncaptured ones, then launches it as a
// graph for each batch of that shape. Samples of varying length have a graph for each padded shape,
// up to kMostGraphs; batches of further shapes run uncaptured (counter: graph.uncaptured_shapes).
class CapturedUpdate {
 public:
  // Function that runs an update and returns the loss of each micro-batch. It must depend only on
  // its argument and on device memory.
  using Body = std::function<Tensors(const Update&)>;

  // Throws Error (exit 2) if the plan needs the host in every update (debug.anomaly). The Session
  // must outlive this object.
  explicit CapturedUpdate(Session& session);

  static constexpr size_t kMostGraphs = 16;

  // Returns the same bits as body(update). Does not capture updates before the tuning window or,
  // unless lengths vary, of another batch size than the first.
  Tensors run(const Update& update, const Body& body);

  // Memory pool of captured updates, for other work that allocates the same blocks (dry_run).
  std::shared_ptr<const MemoryPool> pool() const { return pool_; }

 private:
  struct Capture {
    Update input;  // read by the graph; holds the batch of each update
    Tensors losses = {};
    // 16-bit copies of the parameters that the graph reads and writes; undefined: none.
    Tensors read = {}, written = {};
    int64_t warm_ups = 0;
    std::unique_ptr<Graph> graph = {};
  };

  Capture* capture_for(const Update& update);
  void record(Capture& capture, const Body& body);
  void replay(Capture& capture);

  Session& session_;
  // Memory that the graphs write. It lives as long as they do.
  const std::shared_ptr<const MemoryPool> pool_;
  std::vector<Capture> captures_;
};

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

// Returns the number of micro-batches of an update with `samples` samples. Some norms refuse a
// single sample, so a smaller last batch is split into single samples only if full batches are.
int64_t micro_batches(const Plan& plan, int64_t samples);
// Throws Error, exit 2, if an update after `step` has a micro-batch of one sample and the model
// cannot train on one. All ranks must call it.
void check_micro_batches(Session& session, int64_t step);

// Runs one forward and backward over `batch` images of noise (0: training's largest batch), without
// an update; with kernel_autotune, two. Afterwards no kernel has to be searched for, and the
// allocator has cached all blocks that they request. Changes nothing else. Counter: alloc.dry_runs.
void dry_run(Session& session, int64_t batch = 0);
// Returns the seconds of a dry_run(), after one that prepares kernels: the fastest of three.
double time_dry_run(Session& session, int64_t batch);

}  // namespace bellows
