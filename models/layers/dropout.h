// Options of the dropout layer, which is the identity in evaluation.
#pragma once
#include "models/module/module.h"

namespace bellows {

struct DropoutLayerOptions {
  double p = 0.5;  // probability that an element becomes zero
};

}  // namespace bellows
