// Activation checkpointing: forward keeps only the input of a segment, and backward runs the
// segment again to recompute its activations. Chen et al., "Training Deep Nets with Sublinear
// Memory Cost", 2016.
#pragma once
#include <span>
#include "autograd/record.h"

namespace bellows {

// Returns fn(x), keeping only x for backward, which calls fn again. fn must return the same values
// each time. `parameters` are the leaves that fn reads; backward throws Exit::usage if one was
// written in the meantime, or is read outside fn in the same pass. Compute thread only.
//
// The second run has the autocast, kernel options, module path and random draws of the first, and
// replaying() is true in it. Each second run is counted in recompute.replays.
Tensor recompute(const std::function<Tensor(const Tensor& x)>& fn, const Tensor& x,
                 std::span<const Tensor> parameters);

// True while this thread replays a segment. Code that runs once per forward pass, such as updates
// of running statistics, must skip replays.
bool replaying();

// Returns draw(); in a replay, the tensor that the same call returned in the first run. For values
// that depend on state which changes between passes, such as the step that keys random numbers.
// A segment must draw in the same order each time.
Tensor drawn(const std::function<Tensor()>& draw);

}  // namespace bellows
