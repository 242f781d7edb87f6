// The backward pass, and access to the gradients of leaves. Compute thread only.
#pragma once
#include "autograd/record.h"

namespace bellows {

struct BackwardOptions {
  bool retain_graph = false;  // false: each node is released as soon as it has run
  double seed = 1;            // d loss / d loss: 1 / N for one of N micro-batches
  Tensor loss_scale = {};     // f32, on the loss's device: multiplies the seed; undefined: 1
  bool low_grads = false;     // see takes_low_grad()
};

// Adds seed * d loss / d leaf to the gradient of every leaf that the scalar `loss` depends on.
// Throws Exit::usage, before any gradient changes, if `loss` has more than one element or no
// history, or if an earlier pass has released the graph.
void backward(const Tensor& loss, const BackwardOptions& options = {});

// Returns the gradient of a leaf; undefined until backward() has reached the leaf. Valid while the
// leaf lives. Its dtype is the leaf's, or 16 bits after a pass with low_grads.
const Tensor& grad(const Tensor& leaf);
// Drops the gradients (set_to_none), or fills existing ones with zeros.
void zero_grad(std::span<const Tensor> leaves, bool set_to_none);

// Sets a hook, called once per pass that yields a gradient for the leaf, with the final gradient:
// after the leaf's last consumer has run, while earlier nodes of the graph have still to run.
// Replaces an earlier hook.
void on_grad_ready(const Tensor& leaf, GradHook hook);

// Makes `place`, a dense view into a gradient bucket, the memory of the leaf's gradient. Shape and
// dtype must be the leaf's. Undefined: the gradient has its own memory again. Counter
// grad.place_copy_bytes: gradients that an op wrote elsewhere and that were copied here.
void place_grad(const Tensor& leaf, const Tensor& place);

// Returns the tensor into which a closure writes the gradient of `input`: the place of a leaf
// without a gradient so far, else new memory with the strides of a dense input. Contents are
// undefined. The closure must return this very tensor.
Tensor grad_out(const Tensor& input);

// True if a closure may return the gradient of this f32 leaf in 16 bits, which saves a cast. Only
// in a pass with low_grads, and only for the first gradient of a leaf without hook and place: sums,
// hooks and places are in the leaf's dtype.
bool takes_low_grad(const Tensor& leaf);

// Debug switch: the first non-finite gradient stops the run (Exit::numeric) with op, module path
// and step in the message.
struct Anomaly {
  bool on = false;
  int64_t step = 0;  // set by the loop
};
Anomaly& anomaly();
// True if all elements are finite; for anomaly and checkpoints. Copies t to the host.
bool all_finite(const Tensor& t);
}  // namespace bellows
