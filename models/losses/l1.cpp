#include "models/losses/loss.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor l1(const NoOptions&, const LossInput& in) {
  return mean(abs(one_hot_error("l1", in)));
}
static const AddEntry<LossFunction> l1_entry("l1", "mean(|output - one_hot(label)|)", l1);

}  // namespace bellows
