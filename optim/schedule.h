// Learning-rate schedules: tables indexed by applied updates, so that a skipped update needs no
// work on the host.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include "core/config/choice.h"
#include "core/tensor/tensor.h"

namespace bellows {

// Length of a curve, in applied updates.
struct Horizon {
  int64_t updates = 1;  // length of the whole run
  int64_t per_epoch = 1;
  int64_t warmup = 0;  // updates at the start; curves that anneal begin after them

  // Returns the fraction of the way from the end of warm-up to the end of the run.
  double done(int64_t update) const {
    return double(std::max<int64_t>(update - warmup, 0)) / double(updates - warmup);
  }
};

// Changes that evaluations have made to the rates so far. A checkpoint keeps it.
struct RateState {
  double factor = 1;                // multiplies every rate from now on
  std::optional<double> best = {};  // value of the metric that the schedule watches
  int64_t bad_evaluations = 0;      // evaluations since the metric improved
  bool operator==(const RateState&) const = default;
};
// A metric of the last evaluation.
struct MetricValue {
  double value;
  bool higher_is_better;
};

// A schedule: a share of the peak rate for each update, from 0 on, and optionally a reaction to
// each evaluation.
struct Curve {
  template <class Share> Curve(Share share) : share(std::move(share)) {}
  double operator()(int64_t update) const { return share(update); }

  std::function<double(int64_t update)> share;
  std::function<void(RateState&, const MetricValue&)> react = {};
  std::string metric = {};  // read by react: "loss", "accuracy"
  double min_lr = 0;        // lower limit of rates that react() lowers
};

using MakeCurve = Curve(const Horizon&);

struct ScheduleOptions {
  Choice<MakeCurve> curve{"constant"};
  int64_t warmup_updates = 0;
  double warmup_epochs = 0;  // added to warmup_updates
  double warmup_from = 0.01;
};
void visit(Visitor& v, ScheduleOptions& o);

// Returns the length of warm-up, in updates.
int64_t warmup_of(const ScheduleOptions& options, int64_t updates_per_epoch);
// Returns the learning rate of each update, f64 on the host: (updates). During warm-up,
// lr(u) = peak (from + (1 - from) u / warmup) curve(u). That is PyTorch's SequentialLR of LinearLR
// and the curve, except for `step`, whose epochs count from the first update. A run shorter than
// its warm-up rises as a longer one would, so that a longer one may continue it. `factor`:
// RateState::factor. Throws Error(Exit::usage) for a run of 0 updates.
Tensor lr_table(const ScheduleOptions& options, double peak_lr, int64_t updates,
                int64_t updates_per_epoch, double factor = 1);
// Returns the rate after `applied` updates, for the log; the last entry stays in force.
double lr_at(const Tensor& lr_table, int64_t applied);

}  // namespace bellows
