// mse and l1: means over the error of each output, square or absolute.
#include "models/losses/loss.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor mse(const NoOptions&, const LossInput& in) {
  return mean(square(one_hot_error("mse", in)));
}
static Tensor l1(const NoOptions&, const LossInput& in) {
  return mean(abs(one_hot_error("l1", in)));
}
static const AddEntry<LossFunction> mse_entry("mse", "mean((output - one_hot(label))^2)", mse);
static const AddEntry<LossFunction> l1_entry("l1", "mean(|output - one_hot(label)|)", l1);

}  // namespace bellows
