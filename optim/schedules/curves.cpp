// Schedules that neither drop in steps nor react: constant, linear and cosine.
#include <cmath>
#include <numbers>
#include "core/config/visitor.h"
#include "optim/schedule.h"

namespace bellows {

namespace {
struct FallOptions {
  double final_factor = 0;
};
void visit(Visitor& v, FallOptions& o) {
  v("final_factor", o.final_factor, "share of the peak that the curve falls to",
    {.min = 0, .max = 1});
}
}  // namespace

static Curve constant(const NoOptions&, const Horizon&) {
  return [](int64_t) { return 1.0; };
}

// As PyTorch's LinearLR with total_iters = updates after warm-up, stepped once per update.
static Curve linear(const FallOptions& o, const Horizon& h) {
  return [o, h](int64_t update) { return 1 + (o.final_factor - 1) * h.done(update); };
}

// As PyTorch's CosineAnnealingLR with T_max = updates after warm-up, stepped once per update.
static Curve cosine(const FallOptions& o, const Horizon& h) {
  return [o, h](int64_t update) {
    const double falling = (1 + std::cos(std::numbers::pi * h.done(update))) / 2;
    return o.final_factor + (1 - o.final_factor) * falling;
  };
}

static const AddEntry<MakeCurve> constant_entry("constant", "the peak rate throughout", constant);
static const AddEntry<MakeCurve> linear_entry("linear", "a line, from the peak down", linear);
static const AddEntry<MakeCurve> cosine_entry("cosine", "half a cosine, from the peak down",
                                              cosine);

}  // namespace bellows
