// bench_planted: the trainer with a toggle whose effect is known, so that `ab` can be tested as an
// instrument. truth.py does it.
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "models/losses/loss.h"
#include "ops/elementwise.h"
#include "plan/toggle.h"
#include "trainer/verbs/verbs.h"

namespace bellows {

namespace {
struct PlantedOptions {
  int64_t spin_us = 0;
  double gradient_error = 0;
};
void visit(Visitor& v, PlantedOptions& o) {
  v("spin_us", o.spin_us, "time that each forward pass wastes, us", {.min = 0});
  v("gradient_error", o.gradient_error, "relative error of the gradients; the loss has none");
}
}  // namespace

// Cross-entropy beside the planted effects.
static Tensor loss(const PlantedOptions& o, const LossInput& in) {
  trace::count<"planted.losses">();
  const int64_t end_ns = trace::now_ns() + 1000 * o.spin_us;
  while (o.spin_us > 0 && trace::now_ns() < end_ns) {
  }
  LossOptions plain;
  plain.fused = in.fused;
  const Tensor loss = criterion(in, plain);
  if (o.gradient_error == 0) return loss;
  return add(loss, mul(sub(loss, loss.detach()), o.gradient_error));  // adds 0 to the value
}
static const AddEntry<LossFunction> entry("planted", "cross_entropy with planted effects", loss);

// on: only counts; wrong: gradients too large by 0.1 %; a number: wastes so many us in each step.
static const AddToggle toggle(
    {
        .idea = "A known effect, or none, in each step.",
        .claim = "the planted one",
        .cost = "the planted one",
        .footprint = "planted.losses",
        .same = Same::close,
        .tolerance = 0.01,
        .values = {"off", "on", "wrong"},
        .numbers = Bounds{.min = 1, .max = 1e6},
        .default_value = "off",
        .fast = "",
        .set =
            [](Plan& plan, const std::string& value) {
              plan.loss.loss.choose("planted");
              auto& options = plan.loss.loss.as<PlantedOptions>();
              if (value == "wrong")
                options.gradient_error = 1e-3;
              else if (value != "on")
                options.spin_us = std::stoll(value);
            },
    },
    "toggles/planted/planted.cpp");

}  // namespace bellows

int main(int argc, char** argv) { return bellows::run_program({argv + 1, argv + argc}); }
