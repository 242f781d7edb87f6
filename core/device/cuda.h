// Checked calls of the CUDA runtime. For .cu and .cuh files: no other file includes CUDA headers.
#pragma once
#include <cuda_runtime_api.h>
#include "core/base/check.h"
#include "core/device/device.h"

// A macro, so that the message names the call.
#define CUDA_CHECK(call) ::bellows::cuda::check(call, #call)

namespace bellows::cuda {

// Throws Error, exit 6 if out of memory, else 9. The message names the op and module of the call
// or, if the error belongs to an earlier kernel, the last kernels launched.
[[noreturn]] void refuse(const char* call, cudaError_t status);
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    refuse(call, status);
}

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }
// Returns the stream that the ops of this thread run on.
inline cudaStream_t stream() { return native(current_stream(Device::cuda)); }

// Limits of the GPU for grids (132, 2048 and 227 KiB on an H200), and the code that it runs.
struct Limits {
  int multiprocessors;
  int threads;       // resident at once on one multiprocessor
  int shared_bytes;  // shared memory of a block whose kernel opts in
  int l2_bytes;      // L2 cache, shared by the multiprocessors
  int arch;          // compute capability: 90 for 9.0
};
const Limits& limits();  // read once

// Records a launch, for the message of an error that is detected only later.
void note_launch();

}  // namespace bellows::cuda
