#include "ops/conv/conv_norm.h"

namespace bellows::kernels {

static const bool gpu = conv_norm.on(Device::cuda, conv_norm_in_steps) &&
                        conv_norm_backward.on(Device::cuda, conv_norm_backward_in_steps);

}  // namespace bellows::kernels
