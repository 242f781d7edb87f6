#include "autograd/grad_scaler.h"
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, GradScalerOptions& o) {
  v("init_scale", o.init_scale, "initial loss scale", {.min = 1e-30, .max = 1e38});
  v("growth_factor", o.growth_factor, "growth of the scale after growth_interval good updates",
    {.min = 1});
  v.require("growth_factor", o.growth_factor > 1,
            "must be more than 1, or the scale would never grow");
  v("backoff_factor", o.backoff_factor, "after an update that was skipped", {.min = 0, .max = 1});
  v.require("backoff_factor", o.backoff_factor > 0 && o.backoff_factor < 1,
            "must be between 0 and 1, or the scale would be lost or never fall");
  v("growth_interval", o.growth_interval, "good updates in a row", {.min = 1});
  v("min_scale", o.min_scale, "smallest scale", {.min = 1e-30});
  v.require("min_scale", o.min_scale <= o.init_scale, "must be no more than init_scale");
}

GradScaler::GradScaler(bool enabled, const GradScalerOptions& options, DeviceStepState& state)
    : enabled_(enabled), options_(options), state_(state) {
  if (!enabled) return;
  StepState start = state.read();
  start.loss_scale = float(options.init_scale);
  start.inverse_scale = 1 / start.loss_scale;
  state.write(start);
}

void GradScaler::update() const {
  if (enabled_) kernels::move_scale(state_.device(), state_.get(), options_);
}

static void move_scale_cpu(Device, StepState* state, const GradScalerOptions& options) {
  move_scale(*state, options);
}
static const bool cpu = kernels::move_scale.on(Device::cpu, move_scale_cpu);

}  // namespace bellows
