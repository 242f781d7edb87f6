// Activation checkpointing: forward keeps the input of a segment only, and backward runs the
// segment again to have what it needs. Chen et al., "Training Deep Nets with Sublinear Memory
// Cost", 2016.
#pragma once
#include <span>
#include "autograd/record.h"

namespace bellows {

// fn(x), which must give the same each time. `parameters` are the leaves that fn reads; backward
// refuses one that was written in the meantime, or that is read outside of fn in the same pass.
// Counted as recompute.replays.
//
// The second run is under the autocast and the kernels of the first, at its place in the model, and
// with what that has drawn; replaying() is true in it.
Tensor recompute(const std::function<Tensor(const Tensor& x)>& fn, const Tensor& x,
                 std::span<const Tensor> parameters);

// Of this thread: a forward pass runs again. Whatever counts passes, such as running statistics,
// leaves this one out.
bool replaying();

// draw(), from what moves on between passes, such as the step that keys random numbers; where a
// segment runs again, what that gave when it ran first: draws come in the same order.
Tensor drawn(const std::function<Tensor()>& draw);

}  // namespace bellows
