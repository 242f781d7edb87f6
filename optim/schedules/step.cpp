#include <cmath>
#include "core/config/visitor.h"
#include "optim/schedule.h"

namespace bellows {

namespace {
struct StepOptions {
  int64_t step_size = 30;
  double gamma = 0.1;
};
void visit(Visitor& v, StepOptions& o) {
  v("step_size", o.step_size, "epochs between two drops, warm-up included", {.min = 1});
  v("gamma", o.gamma, "factor of each drop", {.min = 0, .max = 1});
}
}  // namespace

// As PyTorch's StepLR, stepped once per epoch's number of applied updates.
static Curve step(const StepOptions& o, const Horizon& h) {
  return [o, h](int64_t update) {
    return std::pow(o.gamma, double(update / h.per_epoch / o.step_size));
  };
}
static const AddEntry<MakeCurve> step_entry("step", "drops by a factor every few epochs", step);

}  // namespace bellows
