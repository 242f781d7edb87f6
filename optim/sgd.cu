#include "optim/rule.cuh"
#include "optim/sgd.h"

namespace bellows {

static const bool gpu = kernels::sgd.on(Device::cuda, update_cuda<Sgd, SgdOptions>);

}  // namespace bellows
