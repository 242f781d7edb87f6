// Reducer: averages gradients over the ranks of a ProcessGroup, like PyTorch's
// DistributedDataParallel.
#pragma once
#include <set>
#include "core/tensor/tensor.h"
#include "dist/process_group.h"

namespace bellows {

// Starts the all_reduce of a gradient as soon as it is final, while backward goes on. In a world of
// one rank there are no hooks, no copies and no waits. One collective per gradient; counter:
// dist.all_reduces.
class Reducer {
 public:
  // Broadcasts the parameters, which must be leaves, from rank 0. The group must outlive this.
  Reducer(ProcessGroup& group, const NamedTensors& parameters);
  ~Reducer();
  Reducer(Reducer&&) = delete;

  // While one of these with `on` lives, backward only accumulates gradients, like no_sync() in
  // PyTorch. For all micro-batches of an update except the last.
  class NoSync {
   public:
    ~NoSync() { held_ = previous_; }
    NoSync(NoSync&&) = delete;

   private:
    friend class Reducer;
    NoSync(bool& held, bool on) : held_(held), previous_(std::exchange(held, on)) {}
    bool& held_;
    bool previous_;
  };
  [[nodiscard]] NoSync no_sync(bool on) { return {held_, on}; }

  // Call after the last backward of an update. Afterwards the gradients are the means; work on the
  // current stream sees them.
  void wait();

 private:
  void send(size_t i);
  void wait_for_all();

  ProcessGroup& group_;
  std::vector<Tensor> leaves_;
  std::set<size_t> waiting_;  // leaves with a gradient that no_sync() kept back
  std::vector<WorkPtr> pending_;
  bool held_ = false;
};

}  // namespace bellows
