#include "optim/sgd.h"
#include "optim/rule.cuh"

namespace bellows {

static const bool gpu = kernels::sgd.on(Device::cuda, update_cuda<Sgd, SgdOptions>);

}  // namespace bellows
