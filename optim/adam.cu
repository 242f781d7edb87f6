#include "optim/adam.h"
#include "optim/rule.cuh"

namespace bellows {

static const bool gpu = kernels::adam.on(Device::cuda, update_cuda<Adam, AdamOptions>);

}  // namespace bellows
