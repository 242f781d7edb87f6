// Compares the plan of a resumed run with the plan in its checkpoint.
#pragma once
#include "plan/plan.h"
#include "trainer/state/training_state.h"

namespace bellows {

// Returns "train.epochs: 5 -> 10" for each option that differs. Throws Error (exit 2) with the
// reason for an option that cannot change. The same run must keep seed, model, data, batch size,
// loss and optimizer. A branch must keep model and optimizer rule, because its checkpoint holds
// their state. Changed shapes of tensors are found by restore().
std::vector<std::string> compare_plans(const Plan& saved, const Plan& now,
                                       Resume resume = Resume::same_run);

}  // namespace bellows
