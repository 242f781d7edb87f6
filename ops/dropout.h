// Dropout: zeros at random while training. The mask is never stored: backward draws it again.
#pragma once
#include "core/base/philox.h"
#include "core/tensor/kernel.h"
#include "core/tensor/step_state.h"

namespace bellows {

// Each element is 0 with probability p, in [0, 1), and x / (1 - p) otherwise. Whether it is dropped
// depends on (seed, the module path in force, state.forwards, its row-major index): the same on
// every device, for any strides and any number of threads. Call it once per module path and step.
// Where a segment runs again (autograd/recompute.h) forwards is what it was.
Tensor dropout(const Tensor& x, double p, uint64_t seed, const DeviceStepState& state);

namespace kernels {
struct Dropout {
  Tensor y;
  Tensor step;  // i64 (1): state->forwards as this forward saw it, on the device
};
// `key` lacks its step: that is read from the state, and in backward from what forward kept.
inline constinit Kernel<Dropout(const Tensor& x, double p, const RngKey& key,
                                const StepState* state)>
    dropout{"dropout"};
inline constinit Kernel<Tensor(const Tensor& dy, double p, const RngKey& key, const Tensor& step)>
    dropout_backward{"dropout_backward"};
}  // namespace kernels
}  // namespace bellows
