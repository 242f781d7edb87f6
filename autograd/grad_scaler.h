// GradScaler: fp16 loses gradients below 6e-8, so backward starts from the loss times a scale. An
// update with a non-finite gradient is left out and the scale lowered; after many good ones it
// grows. The state is in StepState on the device, so the host waits for nothing and a captured
// graph holds all of it. The optimizer finds the non-finite, unscales and skips.
//
//   backward(loss, {.state = scaler.state()});
//   optimizer.step(state);      // changes nothing if found_inf
//   scaler.update();
//
// Micikevicius et al., "Mixed Precision Training", ICLR 2018.
#pragma once
#include "core/config/visitor.h"
#include "core/tensor/step_state.h"

namespace bellows {

struct GradScalerOptions {
  double init_scale = 1024;
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good updates in a row
  double min_scale = 1;            // below which it does not fall
};
void visit(Visitor& v, GradScalerOptions& o);

class GradScaler {
 public:
  // Not enabled, state() is null and update() does nothing.
  GradScaler(bool enabled, const GradScalerOptions& options, DeviceStepState& state);

  const StepState* state() const { return enabled_ ? state_.get() : nullptr; }
  void update() const;  // after the optimizer's step

 private:
  const bool enabled_;
  const GradScalerOptions options_;
  DeviceStepState& state_;
};

// One update's verdict, on whichever device the state is.
HD inline void move_scale(StepState& s, const GradScalerOptions& o) {
  s.good_updates = s.found_inf ? 0 : s.good_updates + 1;
  const bool grows = s.good_updates >= o.growth_interval;
  const double factor = s.found_inf ? o.backoff_factor : grows ? o.growth_factor : 1;
  const double scale = s.loss_scale * factor;
  if (grows) s.good_updates = 0;
  // Beyond the largest float nothing would ever be finite again.
  if (scale < 3e38) s.loss_scale = float(scale < o.min_scale ? o.min_scale : scale);
  s.inverse_scale = 1 / s.loss_scale;
}

namespace kernels {
inline constinit Kernel<void(Device device, StepState* state, const GradScalerOptions& options)>
    move_scale{"grad_scaler"};
}
}  // namespace bellows
