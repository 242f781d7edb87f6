// What a resumed run does differently.
#pragma once
#include "plan/plan.h"
#include "trainer/state/training_state.h"

namespace bellows {

// "train.epochs: 5 -> 10" for each option that differs. Throws Error, exit 2, with the reason for
// one that cannot change. The same run keeps seed, model, data, batch size, loss and optimizer. A
// branch keeps what its checkpoint holds a state of: the model and the rule of the optimizer;
// whether an option of these changes the shape of a tensor is for restore() to find.
std::vector<std::string> compare_plans(const Plan& saved, const Plan& now,
                                       Resume resume = Resume::same_run);

}  // namespace bellows
