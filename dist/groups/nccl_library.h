// The functions of NCCL that we call, for .cu files.
#pragma once
#include <nccl.h>
#include "core/base/library.h"

namespace bellows {

struct NcclLibrary {
  Library loaded{"libnccl.so.2"};
  LIBRARY_FUNCTION(ncclGetUniqueId);
  LIBRARY_FUNCTION(ncclCommInitRankConfig);
  LIBRARY_FUNCTION(ncclCommGetAsyncError);
  LIBRARY_FUNCTION(ncclCommFinalize);
  LIBRARY_FUNCTION(ncclCommDestroy);
  LIBRARY_FUNCTION(ncclCommAbort);
  LIBRARY_FUNCTION(ncclGetErrorString);
  LIBRARY_FUNCTION(ncclGetLastError);
  LIBRARY_FUNCTION(ncclAllReduce);
  LIBRARY_FUNCTION(ncclBroadcast);
  LIBRARY_FUNCTION(ncclAllGather);
};
// Opens libnccl.so.2 on first use. Throws Error, exit 2, if it is missing.
const NcclLibrary& nccl();

}  // namespace bellows
