// The CUDA runtime, every call checked. For .cu files only: nothing else includes a CUDA header.
#pragma once
#include <cuda_runtime_api.h>
#include "core/base/check.h"
#include "core/device/device.h"

// A macro, so that the message names the call.
#define CUDA_CHECK(call) ::bellows::cuda::check(call, #call)

namespace bellows::cuda {

// Throws: which op in which module made the call and, where the error is an earlier kernel's, which
// kernels were launched last. Exit 6 where memory ran out, 9 otherwise.
[[noreturn]] void refuse(const char* call, cudaError_t status);
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    refuse(call, status);
}

// Where the ops of this thread run.
inline cudaStream_t stream() {
  return static_cast<cudaStream_t>(current_stream(Device::cuda).native);
}
inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }

// Kept for the message of an error that shows only later.
void note_launch();

}  // namespace bellows::cuda
