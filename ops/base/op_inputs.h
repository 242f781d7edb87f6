// Test inputs for a registered op, for tests, `trainer check` and benchmarks. The values are the
// same on every run and for every dtype, so failures are reproducible.
#pragma once
#include "ops/base/op.h"

namespace bellows {

// Returns leaves of these shapes on the CPU, drawn as `op` requires (positive, distinct, away from
// a kink) and rounded to `dtype`.
Inputs make_inputs(const OpSpec& op, const Shapes& shapes, DType dtype);

}  // namespace bellows
