// Measures when the gradients of an update become ready, for `trainer plan`.
#pragma once
#include "labs/plan/forecast.h"
#include "plan/plan.h"

namespace bellows {

// Trains `updates` updates on the first batch, on one rank and without saving anything. Times are
// medians, by the device's clock. A gradient that backward does not reach is ready at its end,
// because the reducer then sends zeros. Throws Error as Session does, and exit 2 on more than one
// rank.
ComputeProfile measure_profile(Plan plan, int64_t updates);

}  // namespace bellows
