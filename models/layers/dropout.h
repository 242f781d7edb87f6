// Dropout as a layer: zeros at random while training, nothing in evaluation.
#pragma once
#include "models/module/module.h"

namespace bellows {

struct DropoutLayerOptions {
  double p = 0.5;
};

}  // namespace bellows
