// mse, l1 and huber: means of a function of each output's error.
#include "core/config/visitor.h"
#include "models/losses/loss.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor mse(const NoOptions&, const LossInput& in) {
  const Errors errors = errors_of("mse", in);
  return mean_of_counted(square(errors.each), errors.counts, in.divisor);
}
static Tensor l1(const NoOptions&, const LossInput& in) {
  const Errors errors = errors_of("l1", in);
  return mean_of_counted(abs(errors.each), errors.counts, in.divisor);
}

namespace {
struct HuberOptions {
  double delta = 1;
};
void visit(Visitor& v, HuberOptions& o) {
  v("delta", o.delta, "largest error that is squared; larger ones count linearly",
    {.min = 1e-6, .max = 1e6});
}
}  // namespace

// As torch.nn.HuberLoss. With m = min(|e|, delta): m * (|e| - m / 2), which is e^2 / 2 up to delta
// and delta * (|e| - delta / 2) above.
static Tensor huber(const HuberOptions& o, const LossInput& in) {
  need_values("huber", in);
  const Tensor size = abs(errors_of("huber", in).each);
  const Tensor m = minimum(size, full({}, o.delta, size));
  return mean_of_counted(mul(m, sub(size, mul(m, 0.5))), {}, in.divisor);
}

static const AddEntry<LossFunction> mse_entry("mse", "mean((output - target)^2)", mse);
static const AddEntry<LossFunction> l1_entry("l1", "mean(|output - target|)", l1);
static const AddEntry<LossFunction> huber_entry("huber", "square up to delta, linear above", huber);

}  // namespace bellows
