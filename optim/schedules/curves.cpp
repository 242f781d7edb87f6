// Schedules that do not react to evaluations.
#include <algorithm>
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
    {.min = 0, .max = 1})
      .also({"eta_min"});
}

struct StepOptions {
  int64_t step_size = 30;
  double gamma = 0.1;
};
void visit(Visitor& v, StepOptions& o) {
  v("step_size", o.step_size, "epochs between two drops, warm-up included", {.min = 1});
  v("gamma", o.gamma, "factor of each drop", {.min = 0, .max = 1});
}

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

static Curve constant(const NoOptions&, const Horizon&) {
  return [](int64_t) { return 1.0; };
}

// As PyTorch's LinearLR with total_iters = updates after warm-up, stepped once per update.
static Curve linear(const FallOptions& o, const Horizon& h) {
  return [o, h](int64_t update) { return 1 + (o.final_factor - 1) * h.done(update); };
}

// As PyTorch's CosineAnnealingLR with T_max = updates after warm-up, stepped once per update.
static Curve cosine(const FallOptions& o, const Horizon& h) {
  return [o, h](int64_t update) { return anneal(1, o.final_factor, h.done(update)); };
}

// As PyTorch's StepLR, stepped once per epoch's number of applied updates.
static Curve step(const StepOptions& o, const Horizon& h) {
  return [o, h](int64_t update) {
    return std::pow(o.gamma, double(update / h.per_epoch / o.step_size));
  };
}

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

static const AddEntry<MakeCurve> constant_entry("constant", "the peak rate throughout", constant);
static const AddEntry<MakeCurve> linear_entry("linear", "a line, from the peak down", linear);
static const AddEntry<MakeCurve> cosine_entry("cosine", "half a cosine, from the peak down",
                                              cosine);
static const AddEntry<MakeCurve> step_entry("step", "drops by a factor every few epochs", step);
static const AddEntry<MakeCurve> one_cycle_entry("one_cycle", "up to the peak, then far down",
                                                 one_cycle);

}  // namespace bellows
