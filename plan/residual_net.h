// Model for the proofs of toggles: contains the module sequences of the batch_norm and shortcut
// fusions. Small and shallow, so that rounding errors do not grow during training.
#pragma once
#include "core/config/values.h"
#include "plan/plan.h"

namespace bellows {

inline void residual_net(Plan& plan) {
  plan = load(plan, {{"optimizer.lr", {"0.01"}},
                     {"train.epochs", {"3"}},
                     {"model.name", {"layers"}},
                     {"model.layers.0.name", {"conv2d"}},
                     {"model.layers.0.out", {"4"}},
                     {"model.layers.0.stride", {"3"}},
                     {"model.layers.1.name", {"batch_norm"}},
                     {"model.layers.2.name", {"relu"}},
                     {"model.layers.3.name", {"residual"}},
                     {"model.layers.3.layers.0.name", {"conv2d"}},
                     {"model.layers.3.layers.0.out", {"4"}},
                     {"model.layers.3.layers.0.padding", {"1"}},
                     {"model.layers.3.layers.1.name", {"batch_norm"}},
                     {"model.layers.4.name", {"flatten"}},
                     {"model.layers.5.name", {"linear"}},
                     {"model.layers.5.out", {"10"}}});
}

}  // namespace bellows
