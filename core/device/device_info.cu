// CUDA support in this binary: the runtime that it contains, and the GPUs that it was compiled for.
#include <cuda_runtime_api.h>
#include "core/base/registry.h"
#include "core/device/device_info.h"

namespace bellows {

static const Provide code(cuda_code, {CUDART_VERSION, BELLOWS_CUDA_ARCHITECTURES});

}  // namespace bellows
