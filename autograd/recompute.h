// Activation checkpointing: forward keeps the input of a segment only, and backward runs the
// segment again to have what it needs. Chen et al., "Training Deep Nets with Sublinear Memory
// Cost", 2016.
#pragma once
#include <span>
#include "autograd/record.h"

namespace bellows {

// fn(x), which must give the same each time. `parameters` are the leaves that fn reads; nothing
// outside of it may read them in the same pass. Counted as recompute.replays.
//
// The second run is under the autocast and the kernels of the first, and at its place in the model;
// replaying() is true in it.
Tensor recompute(const std::function<Tensor(const Tensor& x)>& fn, const Tensor& x,
                 std::span<const Tensor> parameters);

// Of this thread: a forward pass runs again. Whatever counts passes, such as running statistics,
// leaves this one out.
bool& replaying();

}  // namespace bellows
