// DataParallel: rank 0 holds the model, and the other ranks compute for it, as the devices of
// PyTorch's DataParallel do for the first one. This is dp, which the toggle ddp replaces.
#pragma once
#include <functional>
#include "core/tensor/step_state.h"
#include "core/tensor/tensor.h"
#include "dist/groups/process_group.h"

namespace bellows {

// Adds bytes that rank 0 sends to or receives from each of the other ranks to the counter
// dist.root_bytes. Call on every rank; rank 0 counts.
void count_root_bytes(const ProcessGroup& group, size_t bytes);
// Calls wait(), which waits for the other ranks, and adds its time to dist.exposed_wait_ns.
void count_wait(const std::function<void()>& wait);

// All ranks pass the same parameters in the same order; the group must outlive this object. Members
// wait for the other ranks, and throw as the group does (exit 7). dist.exposed_wait_ns counts the
// time of these waits.
class DataParallel {
 public:
  DataParallel(ProcessGroup& group, const NamedTensors& parameters)
      : group_(group), parameters_(parameters) {}

  // Collects all gradients on rank 0 and averages them there. Every parameter must have one.
  void return_gradients() const;
  // Sends rank 0's parameters and its state to the other ranks.
  void send_parameters(DeviceStepState& state) const;

 private:
  ProcessGroup& group_;
  const NamedTensors parameters_;
};

}  // namespace bellows
