#include "models/criterion.h"
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, LossOptions& o) {
  v("label_smoothing", o.label_smoothing,
    "share of the target spread over all classes; evaluation never smooths",
    {.min = 0, .max = 0.999});
  v("fused", o.fused, "softmax and cross-entropy in one kernel");
}

Tensor criterion(const Tensor& logits, const Tensor& labels, const LossOptions& options) {
  return cross_entropy(logits, labels, {.label_smoothing = options.label_smoothing},
                       options.fused ? Impl::fused : Impl::composed);
}

}  // namespace bellows
