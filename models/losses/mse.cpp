#include "models/losses/loss.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor mse(const NoOptions&, const LossInput& in) {
  return mean(square(one_hot_error("mse", in)));
}
static const AddEntry<LossFunction> mse_entry("mse", "mean((output - one_hot(label))^2)", mse);

}  // namespace bellows
