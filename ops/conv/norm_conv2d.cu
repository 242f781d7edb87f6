#include "ops/conv/norm_conv2d.h"

namespace bellows::kernels {

static const bool gpu = norm_conv2d.on(Device::cuda, norm_conv2d_in_steps) &&
                        norm_conv2d_backward.on(Device::cuda, norm_conv2d_backward_in_steps);

}  // namespace bellows::kernels
