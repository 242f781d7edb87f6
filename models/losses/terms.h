// The terms of a loss, apart: `trainer bench loss` times each one alone.
#pragma once
#include <vector>
#include "models/losses/loss.h"

namespace bellows {

struct LossTerm {
  std::string name;  // "loss.l1", as in the log; a second l1 is "loss.l1_2"
  Choice<LossFunction> loss;
  double weight = 1;
};
// Returns the terms of a sum in their order. Any other loss is its own only term.
std::vector<LossTerm> terms_of(const LossOptions& options);

}  // namespace bellows
