// Stand-in for NCCL: ranks are threads of this process that share the device, or one rank alone.
// Collectives are operations of the streams they are queued on, and compute real values.
#pragma once
#include <driver_types.h>
#include <nccl.h>
#include <atomic>
#include <string>
#include <vector>

namespace cuda_host {

struct NcclCall {
  int rank;
  std::string text;  // "ncclAllReduce of 100 f32, avg"
  cudaStream_t stream;
};
// State of the stand-in: faults that tests plant, and calls that they check. The runtime's mutex
// guards it while ranks call NCCL.
struct NcclStandIn {
  std::vector<NcclCall> calls;       // of all ranks, in order
  std::atomic<int> aborted = 0;      // communicators
  bool breaks = false;               // the next collective never ends, unless it is aborted
  ncclResult_t error = ncclSuccess;  // of ncclCommGetAsyncError, after a collective that breaks
  bool never_connects = false;       // the next ncclCommInitRankConfig stays in progress
};
inline NcclStandIn nccl_library;

// Work that is queued on the stream from now on waits until a communicator is aborted, as if a
// collective inside a graph hung.
void hang(cudaStream_t stream);

}  // namespace cuda_host
