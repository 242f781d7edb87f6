// What a resumed run does differently.
#pragma once
#include "toggles/plan.h"

namespace bellows {

// "train.epochs: 5 -> 10" for each option that differs. Throws Error (exit 2) where it would be
// another run: seed, model, data, batch size, optimizer.
std::vector<std::string> compare_plans(const Plan& saved, const Plan& now);

}  // namespace bellows
