// Device memory for one call of a library, null if `bytes` is 0. The allocator reuses it in stream
// order, so it may be released as soon as the call is enqueued: all calls on a stream share one
// block, and no layer keeps one.
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

class Workspace {
 public:
  explicit Workspace(int64_t bytes) {
    if (bytes) memory_ = Tensor({bytes}, DType::u8, Device::cuda);
  }
  void* get() const { return memory_.defined() ? memory_.bytes() : nullptr; }

 private:
  Tensor memory_;
};

}  // namespace bellows
