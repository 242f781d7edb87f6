// Dropout: zeros random elements in training. Backward draws the same random values again.
#pragma once
#include "core/base/philox.h"
#include "core/tensor/kernel.h"
#include "core/tensor/step_state.h"

namespace bellows {

// Each element becomes 0 with probability p, in [0, 1), and x / (1 - p) otherwise. x: any shape and
// float dtype. Returns row-major y. The decision is a function of (seed, current module path,
// state.forwards, row-major index): equal on every device, for any strides and any number of
// threads. Call it at most once per module path and step. A recomputed segment
// (autograd/recompute.h) uses the `forwards` of its first run. Throws (exit 2) if p is out of range
// or `state` is on another device.
Tensor dropout(const Tensor& x, double p, uint64_t seed, const DeviceStepState& state);

namespace kernels {
struct Dropout {
  Tensor y;
  Tensor step;  // i64 (1), on the device: state->forwards at the time of this forward
};
// key.step is ignored: forward reads the step from the state, backward takes the one forward saved.
inline constinit Kernel<Dropout(const Tensor& x, double p, const RngKey& key,
                                const StepState* state)>
    dropout{"dropout"};
inline constinit Kernel<Tensor(const Tensor& dy, double p, const RngKey& key, const Tensor& step)>
    dropout_backward{"dropout_backward"};
}  // namespace kernels
}  // namespace bellows
