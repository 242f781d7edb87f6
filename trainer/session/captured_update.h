// The toggle cuda_graph: captures one update after a few uncaptured ones, then launches it as a
// graph for each batch of that shape. Samples of varying length have a graph for each padded shape,
// up to kMostGraphs; batches of further shapes run uncaptured (counter: graph.uncaptured_shapes).
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "core/device/allocator.h"
#include "core/device/graph.h"
#include "data/loader/batch.h"

namespace bellows {

class Session;

class CapturedUpdate {
 public:
  // Function that runs an update and returns the loss of each micro-batch. It must depend only on
  // its argument and on device memory.
  using Body = std::function<Tensors(const Update&)>;

  // Throws Error (exit 2) if the plan needs the host in every update (debug.anomaly). The Session
  // must outlive this object.
  explicit CapturedUpdate(Session& session);

  static constexpr size_t kMostGraphs = 16;

  // Returns the same bits as body(update). Updates of another batch size, unless lengths vary, and
  // updates before the tuning window are not captured.
  Tensors run(const Update& update, const Body& body);

  // Memory pool of captured updates, for other work that allocates the same blocks (dry_run).
  std::shared_ptr<const MemoryPool> pool() const { return pool_; }

 private:
  struct Copy {
    Tensor read, written;  // by the graph; undefined: none
  };
  struct Capture {
    Update input;  // read by the graph; holds the batch of each update
    Tensors losses = {};
    std::vector<Copy> copies = {};  // 16-bit copy of each parameter
    int64_t warm_ups = 0;
    std::unique_ptr<Graph> graph = {};
  };

  Capture* capture_for(const Update& update);
  Batch place_for(const Batch& batch) const;
  void record(Capture& capture, const Body& body);
  void replay(Capture& capture);

  Session& session_;
  const std::shared_ptr<const MemoryPool>
      pool_;  // memory that the graphs write; lives as long as they
  std::vector<Capture> captures_;
};

}  // namespace bellows
