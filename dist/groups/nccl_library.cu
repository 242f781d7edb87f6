#include "core/base/library.h"
#include "dist/groups/nccl_library.h"

namespace bellows {

const NcclLibrary& nccl() {
  static const NcclLibrary functions = [] {
    static const Library library("libnccl.so.2");
    CHECK(library,
          "dist.backend: nccl, but libnccl.so.2 is not installed; install NCCL 2.28, or "
          "write  dist.backend: gloo");
    NcclLibrary f{};
    library.require("ncclGetUniqueId", f.get_unique_id);
    library.require("ncclCommInitRankConfig", f.init);
    library.require("ncclCommGetAsyncError", f.async_error);
    library.require("ncclCommFinalize", f.finalize);
    library.require("ncclCommDestroy", f.destroy);
    library.require("ncclCommAbort", f.abort);
    library.require("ncclGetErrorString", f.error_string);
    library.require("ncclGetLastError", f.last_error);
    library.require("ncclAllReduce", f.all_reduce);
    library.require("ncclBroadcast", f.broadcast);
    library.require("ncclAllGather", f.all_gather);
    return f;
  }();
  return functions;
}

}  // namespace bellows
