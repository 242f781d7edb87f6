#include "autograd/grad_scaler.h"
#include "core/device/launch.cuh"

namespace bellows {

// One thread, because all state is scalar.
static __global__ void move(StepState* state, GradScalerOptions options) {
  move_scale(*state, options);
}

static void move_scale_cuda(Device, StepState* state, const GradScalerOptions& options) {
  launch(move, {1, 1}, state, options);
}
static const bool gpu = kernels::move_scale.on(Device::cuda, move_scale_cuda);

}  // namespace bellows
