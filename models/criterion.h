// The loss that training minimises.
#pragma once
#include "core/config/visitor.h"
#include "ops/cross_entropy.h"

namespace bellows {

struct LossOptions {
  double label_smoothing = 0;
  bool fused = false;
};
void visit(Visitor& v, LossOptions& o);

// Mean cross-entropy of logits (N, classes) against labels (N), a scalar.
Tensor criterion(const Tensor& logits, const Tensor& labels, const LossOptions& options);

}  // namespace bellows
