// One call of a CUDA library on the current stream.
#pragma once
#include "core/base/trace.h"
#include "core/device/cuda.h"
#include "core/tensor/tensor.h"

namespace bellows {

// Counts the call in kernel.vendor_calls and, with TF32, in matmul.tf32_calls; notes it as a
// launch; and holds its workspace. The allocator reuses that memory in stream order, so it may be
// released as soon as the call is enqueued: all calls on a stream share one block, and no layer
// keeps one.
class CudaCall {
 public:
  CudaCall(int64_t workspace_bytes, bool tf32) {
    trace::count<"kernel.vendor_calls">();
    if (tf32) trace::count<"matmul.tf32_calls">();
    if (workspace_bytes) memory_ = Tensor({workspace_bytes}, DType::u8, Device::cuda);
    cuda::note_launch();
  }
  void* workspace() const { return memory_.defined() ? memory_.bytes() : nullptr; }

 private:
  Tensor memory_;
};

}  // namespace bellows
