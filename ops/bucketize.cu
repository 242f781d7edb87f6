#include "core/tensor/map.cuh"
#include "ops/bucketize_kernels.h"

namespace bellows {

static const bool gpu = add_kernels(Device::cuda);

}  // namespace bellows
