#include "models/losses/loss.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor loss(const NoOptions&, const LossInput& in) {
  return mean(square(one_hot_error("mse", in)));
}
static const AddEntry<LossFunction> entry("mse", "mean((output - one_hot(label))^2)", loss);

}  // namespace bellows
