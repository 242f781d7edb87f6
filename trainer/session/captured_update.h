// The toggle cuda_graph: one update, captured after a few that ran as they are, and from then on
// launched as a whole for each batch of that size.
#pragma once
#include "core/device/graph.h"
#include "trainer/session/session.h"

namespace bellows {

class CapturedUpdate {
 public:
  // The loss of each micro-batch of an update: a function of its batch and of what is on the
  // device.
  using Body = std::function<Tensors(const Update&)>;

  // Refuses a plan in which the host has a say in every update.
  explicit CapturedUpdate(Session& session);

  // As body(Update(batch)), with the same bits. An update of another size runs as it is, and so
  // does one before the tuning window. Pictures of another size are captured anew.
  Tensors run(const Batch& batch, const Body& body);

  // For what is done once and needs the memory that updates need.
  std::shared_ptr<const MemoryPool> pool() const { return pool_; }

 private:
  void start_over(const Shape& x);
  Tensors warm_up(const Body& body);
  void capture(const Body& body);
  void replay();

  Session& session_;
  const std::shared_ptr<const MemoryPool>
      pool_;  // all that the graph writes, for as long as it lives
  Batch input_;
  Tensors losses_;
  struct Copy {
    Tensor read, written;  // by the graph; undefined: none
  };
  std::vector<Copy> copies_;  // of each parameter, in 16 bits
  int64_t warm_ups_ = 0;
  std::unique_ptr<Graph> graph_;
};

}  // namespace bellows
