// The reducer gives every rank the same gradients: their mean over the ranks.
#pragma once
#include <set>
#include "core/tensor/named.h"
#include "dist/process_group.h"

namespace bellows {

// A gradient leaves as soon as it is final, while backward goes on. In a world of one there are no
// hooks, no copies and nothing to wait for.
class Reducer {
 public:
  // Parameters are leaves; the values of rank 0 become everyone's. The group must outlive this.
  Reducer(ProcessGroup& group, const NamedTensors& parameters);
  ~Reducer();
  Reducer(Reducer&&) = delete;

  // While a hold is on, backward only adds up (no_sync): all but the last of the micro-batches.
  class Hold {
   public:
    ~Hold() { held_ = previous_; }
    Hold(Hold&&) = delete;

   private:
    friend class Reducer;
    Hold(bool& held, bool on) : held_(held), previous_(std::exchange(held, on)) {}
    bool& held_;
    bool previous_;
  };
  [[nodiscard]] Hold hold(bool on) { return {held_, on}; }

  // After the last backward of an update: the gradients are the means.
  void wait();

 private:
  void send(size_t i);

  ProcessGroup& group_;
  std::vector<Tensor> leaves_;
  std::set<size_t> waiting_;  // leaves that got a gradient while held, and none since
  Tensors sent_;              // since the last wait()
  bool held_ = false;
};

}  // namespace bellows
