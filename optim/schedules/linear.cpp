#include "core/config/visitor.h"
#include "optim/schedule.h"

namespace bellows {

namespace {
struct LinearOptions {
  double final_factor = 0;
};
void visit(Visitor& v, LinearOptions& o) {
  v("final_factor", o.final_factor, "share of the peak that the line falls to",
    {.min = 0, .max = 1});
}
}  // namespace

// As PyTorch's LinearLR with total_iters = updates after warm-up, stepped once per update.
static Curve linear(const LinearOptions& o, const Horizon& h) {
  return [o, h](int64_t update) { return 1 + (o.final_factor - 1) * h.done(update); };
}
static const AddEntry<MakeCurve> linear_entry("linear", "a line, from the peak down", linear);

}  // namespace bellows
