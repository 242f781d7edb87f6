// The backward pass, and where gradients land.
#pragma once
#include "autograd/record.h"
#include "core/tensor/kernel.h"
#include "core/tensor/step_state.h"

namespace bellows {

struct BackwardOptions {
  bool retain_graph = false;         // otherwise each node is released as soon as it has run
  double seed = 1;                   // d loss / d loss: 1 / N for one of N micro-batches
  const StepState* state = nullptr;  // on the loss's device: its loss_scale times that
};

// Adds seed * d loss / d leaf to the gradient of every leaf that the scalar `loss` depends on.
// Refuses a graph that an earlier pass has released, before it changes anything.
void backward(const Tensor& loss, const BackwardOptions& options = {});

const Tensor& grad(const Tensor& leaf);  // undefined until backward() has reached it
// Drops the gradients, or writes zeros into those that exist.
void zero_grad(std::span<const Tensor> leaves, bool set_to_none);

// Calls the hook once in each pass that gives the leaf a gradient, as soon as that is final: after
// the last consumer of the pass, while the nodes in front of it have still to run.
void on_grad_ready(const Tensor& leaf, GradHook hook);

// The leaf's gradient is to live there (a dense view into a bucket); undefined: wherever it falls.
void place_grad(const Tensor& leaf, const Tensor& place);

// Where a backward writes the gradient of `input`: its place if that is a leaf whose first share
// this is, fresh memory otherwise, in the order of a dense input. Contents are undefined; return
// the tensor itself.
Tensor grad_out(const Tensor& input);

// Debug switch: the first non-finite gradient stops the run, naming op, module path and step.
struct Anomaly {
  bool on = false;
  int64_t step = 0;  // set by the loop
};
Anomaly& anomaly();
// For anomaly and on_nonfinite: are all elements finite? Waits for a device.
bool all_finite(const Tensor& t);

namespace kernels {
inline constinit Kernel<bool(const Tensor& t)> all_finite{"all_finite"};
// seed, an f32 or f64 scalar, times the loss scale.
inline constinit Kernel<void(const Tensor& seed, const StepState* state)> scale_seed{"scale_seed"};
}  // namespace kernels
}  // namespace bellows
