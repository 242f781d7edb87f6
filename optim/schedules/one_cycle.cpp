#include <algorithm>
#include <cmath>
#include <numbers>
#include "core/config/visitor.h"
#include "optim/schedule.h"

namespace bellows {

namespace {
struct OneCycleOptions {
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
};
void visit(Visitor& v, OneCycleOptions& o) {
  v("pct_start", o.pct_start, "share of the updates that rise", {.min = 0, .max = 1});
  v("div_factor", o.div_factor, "peak over first rate", {.min = 1});
  v("final_div_factor", o.final_div_factor, "first over last rate", {.min = 1});
}

// Half a cosine, from a (done = 0) to b (done = 1).
double anneal(double a, double b, double done) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * done)) / 2;
}
}  // namespace

// As PyTorch's OneCycleLR with cosine annealing in two phases; momentum does not change.
static Curve one_cycle(const OneCycleOptions& o, const Horizon& h) {
  const auto updates = double(h.updates - h.warmup);
  const double top = o.pct_start * updates - 1, last = updates - 1;
  const double first_factor = 1 / o.div_factor;
  return [=, warmup = h.warmup, last_factor = first_factor / o.final_div_factor](int64_t update) {
    const auto at = double(std::max<int64_t>(update - warmup, 0));
    if (at < top) return anneal(first_factor, 1, at / top);
    return anneal(1, last_factor, last > top ? (at - top) / (last - top) : 0);
  };
}
static const AddEntry<MakeCurve> one_cycle_entry("one_cycle", "up to the peak, then far down",
                                                 one_cycle);

}  // namespace bellows
