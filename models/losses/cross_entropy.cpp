#include "ops/cross_entropy.h"
#include "core/config/visitor.h"
#include "models/losses/loss.h"

namespace bellows {

static void visit(Visitor& v, CrossEntropyOptions& o) {
  v("label_smoothing", o.label_smoothing,
    "share of the target spread over all classes; evaluation never smooths",
    {.min = 0, .max = 0.999});
}

static Tensor loss(const CrossEntropyOptions& o, const LossInput& in) {
  const CrossEntropyOptions options = in.training ? o : CrossEntropyOptions{};
  need_classes("cross_entropy", in);
  return cross_entropy(in.output, in.target, options, in.fused ? Impl::fused : Impl::composed,
                       in.divisor);
}
static const AddEntry<LossFunction> cross_entropy_entry("cross_entropy",
                                                        "-mean(log(softmax(output)[label]))", loss);

}  // namespace bellows
