#include "dist/groups/nccl_library.h"

namespace bellows {

const NcclLibrary& nccl() {
  static const NcclLibrary functions{};
  CHECK(functions.loaded,
        "dist.backend: nccl, but libnccl.so.2 is not installed; install NCCL 2.28, or "
        "write  dist.backend: gloo");
  return functions;
}

}  // namespace bellows
