// FLOP and bytes of one update, as its ops state them (ops/base/work.h).
#pragma once
#include "ops/base/work.h"
#include "plan/plan.h"

namespace bellows {

class Session;
// Returns the work of the optimizer in an update.
Cost work_of_update(const Session& session);

// Returns the work of one update: its ops, the sums of gradients and the optimizer. Records an
// update on two and one on four samples in this process, and extrapolates their work to the batch
// of the plan. Throws Error as Session does, and exit 2 if the model's ops depend on the batch.
Cost work_of_step(Plan plan);

}  // namespace bellows
