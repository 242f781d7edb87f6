// Memory that a library's call needs while it runs. From the allocator and back to it after each
// call: it is reused in stream order, so all calls of a stream share it, and no layer holds any.
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
