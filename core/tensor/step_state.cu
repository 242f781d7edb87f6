#include "core/device/launch.cuh"
#include "core/tensor/step_state.h"

namespace bellows {

static __global__ void one_more(StepState* state) { ++state->forwards; }

static void begin_forward_cuda(const Tensor& state) {
  launch(one_more, {1, 1}, reinterpret_cast<StepState*>(state.bytes()));
}
static const bool gpu = kernels::begin_forward.on(Device::cuda, begin_forward_cuda);

}  // namespace bellows
