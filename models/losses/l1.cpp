#include "models/losses/loss.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor loss(const NoOptions&, const LossInput& in) {
  return mean(abs(one_hot_error("l1", in)));
}
static const AddEntry<LossFunction> entry("l1", "mean(|output - one_hot(label)|)", loss);

}  // namespace bellows
