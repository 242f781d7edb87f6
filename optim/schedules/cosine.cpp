#include <cmath>
#include <numbers>
#include "core/config/visitor.h"
#include "optim/schedule.h"

namespace bellows {

namespace {
struct CosineOptions {
  double final_factor = 0;
};
void visit(Visitor& v, CosineOptions& o) {
  v("final_factor", o.final_factor, "share of the peak that the curve falls to",
    {.min = 0, .max = 1});
}
}  // namespace

// As PyTorch's CosineAnnealingLR with T_max = updates after warm-up, stepped once per update.
static Curve cosine(const CosineOptions& o, const Horizon& h) {
  return [o, h](int64_t update) {
    const double falling = (1 + std::cos(std::numbers::pi * h.done(update))) / 2;
    return o.final_factor + (1 - o.final_factor) * falling;
  };
}
static const AddEntry<MakeCurve> cosine_entry("cosine", "half a cosine, from the peak down",
                                              cosine);

}  // namespace bellows
