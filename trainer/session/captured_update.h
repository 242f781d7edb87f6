// The toggle cuda_graph: captures one update after a few uncaptured ones, then launches it as a
// graph for each batch of that size.
#pragma once
#include <functional>
#include <memory>
#include <optional>
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

  // Returns the same bits as body(update). Updates of another batch size and updates before the
  // tuning window are not captured.
  Tensors run(const Update& update, const Body& body);

  // Memory pool of captured updates, for other work that allocates the same blocks (dry_run).
  std::shared_ptr<const MemoryPool> pool() const { return pool_; }

 private:
  void receive(const Batch& batch);
  Tensors warm_up(const Body& body);
  void capture(const Body& body);
  void replay();

  Session& session_;
  const std::shared_ptr<const MemoryPool>
      pool_;                     // memory that the graph writes; lives as long as it
  std::optional<Update> input_;  // read by the graph; holds the batch of each update
  Tensors losses_;
  struct Copy {
    Tensor read, written;  // by the graph; undefined: none
  };
  std::vector<Copy> copies_;  // 16-bit copy of each parameter
  int64_t warm_ups_ = 0;
  std::unique_ptr<Graph> graph_;
};

}  // namespace bellows
