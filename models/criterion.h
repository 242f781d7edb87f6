// The loss that training minimizes.
#pragma once
#include "ops/cross_entropy.h"

namespace bellows {

class Visitor;

struct LossOptions {
  double label_smoothing = 0;
  bool fused = false;
};
void visit(Visitor& v, LossOptions& o);

// Returns the mean cross-entropy, a scalar with history. logits: (N, classes), floating-point;
// labels: (N), i64. Throws Exit::data if a label is out of range (on a GPU: the loss becomes NaN).
Tensor criterion(const Tensor& logits, const Tensor& labels, const LossOptions& options);

}  // namespace bellows
