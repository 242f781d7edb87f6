// Inputs for a registered op: the same numbers on every run and for every dtype, so that any
// failure replays. What tests, `trainer check` and benchmarks run ops on.
#pragma once
#include "ops/base/op.h"

namespace bellows {

// Leaves of these shapes, drawn as the spec asks (positive, distinct, away from a kink).
Inputs make_inputs(const OpSpec& op, const Shapes& shapes, DType dtype);

}  // namespace bellows
