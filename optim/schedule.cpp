#include "optim/schedule.h"
#include <algorithm>
#include <cmath>
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, ScheduleOptions& o) {
  v.choice("name", o.curve, "learning rate over the run")
      .forgets(Forget::rate)
      .also({"lr_scheduler", "scheduler"});
  v("warmup_updates", o.warmup_updates, "updates of linear warm-up", {.min = 0})
      .also({"warmup_steps"});
  v("warmup_epochs", o.warmup_epochs, "epochs of linear warm-up", {.min = 0});
  v("warmup_from", o.warmup_from, "share of the peak at which warm-up begins",
    {.min = 0, .max = 1});
}

int64_t warmup_of(const ScheduleOptions& options, int64_t updates_per_epoch) {
  return options.warmup_updates + std::llround(options.warmup_epochs * double(updates_per_epoch));
}

Tensor lr_table(const ScheduleOptions& options, double peak_lr, int64_t updates,
                int64_t updates_per_epoch, double factor) {
  CHECK(updates > 0 && updates_per_epoch > 0, "schedule: ", updates, " updates, ",
        updates_per_epoch, " per epoch; a run needs at least one");
  const int64_t warmup = warmup_of(options, updates_per_epoch);
  const int64_t horizon = std::max(updates, warmup + 1);  // curves divide by the rest
  const Curve curve = options.curve.make(Horizon{horizon, updates_per_epoch, warmup});
  const Tensor table = zeros({updates}, DType::f64);
  for (int64_t u = 0; u < updates; ++u) {
    const double from = options.warmup_from;
    const double rising = u < warmup ? from + (1 - from) * double(u) / double(warmup) : 1.0;
    const double rate = peak_lr * rising * curve(u);
    table.ptr<double>()[u] = std::max(factor * rate, std::min(curve.min_lr, rate));
  }
  return table;
}

double lr_at(const Tensor& lr_table, int64_t applied) {
  return lr_table.data<double>()[std::min(applied, lr_table.numel() - 1)];
}

}  // namespace bellows
