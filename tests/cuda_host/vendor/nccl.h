// Stand-in for NCCL: ranks are threads of this process that share the device, or one rank alone.
// Collectives are operations of the streams they are queued on, and compute real values.
#pragma once
#include <driver_types.h>
#include <nccl.h>
#include <string>
#include <vector>

namespace cuda_host {

struct NcclCall {
  int rank;
  std::string text;  // "ncclAllReduce of 100 f32, avg"
  cudaStream_t stream;
};
// Returns the calls of all ranks since the last call, in order.
std::vector<NcclCall> take_nccl_calls();

// The next collective never ends, unless its communicator is aborted. With an error other than
// ncclSuccess, ncclCommGetAsyncError reports it from then on.
void break_next_collective(ncclResult_t error = ncclSuccess);
// Work that is queued on the stream from now on waits until a communicator is aborted, as if a
// collective inside a graph hung.
void hang(cudaStream_t stream);
// The next ncclCommInitRankConfig on any thread stays in progress.
void hang_next_connection();
int aborted_communicators();  // since the last call

}  // namespace cuda_host
