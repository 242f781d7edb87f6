// The functions of NCCL that we call, for .cu files.
#pragma once
#include <nccl.h>

namespace bellows {

struct NcclLibrary {
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRankConfig) init;
  decltype(&::ncclCommGetAsyncError) async_error;
  decltype(&::ncclCommFinalize) finalize;
  decltype(&::ncclCommDestroy) destroy;
  decltype(&::ncclCommAbort) abort;
  decltype(&::ncclGetErrorString) error_string;
  decltype(&::ncclGetLastError) last_error;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclAllGather) all_gather;
};
// Opens libnccl.so.2 on first use. Throws Error, exit 2, if it is missing.
const NcclLibrary& nccl();

}  // namespace bellows
