#include <cmath>
#include "core/config/visitor.h"
#include "optim/schedule.h"

namespace bellows {

namespace {
struct PlateauOptions {
  std::string metric = "loss";
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  double min_lr = 0;
};
void visit(Visitor& v, PlateauOptions& o) {
  v("metric", o.metric, "loss or the metric of eval.metrics to watch")
      .forgets(Forget::rate_history);
  v("factor", o.factor, "factor of each drop", {.min = 0, .max = 1});
  v("patience", o.patience, "evaluations without improvement that it tolerates before a drop",
    {.min = 0});
  v("threshold", o.threshold, "smallest relative change that counts as an improvement",
    {.min = 0, .max = 1});
  v("min_lr", o.min_lr, "drops lower no rate below this one", {.min = 0});
}
}  // namespace

// As PyTorch's ReduceLROnPlateau in its relative mode, stepped once per evaluation; the metric
// determines whether lower or higher is better. A value that is not finite is not an improvement.
static void react(const PlateauOptions& o, RateState& state, const MetricValue& now) {
  const bool better =
      !state.best || (now.higher_is_better ? now.value > *state.best * (1 + o.threshold)
                                           : now.value < *state.best * (1 - o.threshold));
  if (better && std::isfinite(now.value)) {
    state.best = now.value;
    state.bad_evaluations = 0;
  } else if (++state.bad_evaluations > o.patience) {
    state.factor *= o.factor;
    state.bad_evaluations = 0;
  }
}

static Curve plateau(const PlateauOptions& o, const Horizon&) {
  Curve curve([](int64_t) { return 1.0; });
  curve.react = [o](RateState& state, const MetricValue& now) { react(o, state, now); };
  curve.metric = o.metric;
  curve.min_lr = o.min_lr;
  return curve;
}
static const AddEntry<MakeCurve> plateau_entry("plateau",
                                               "drops by a factor when evaluations stop improving",
                                               plateau);

}  // namespace bellows
