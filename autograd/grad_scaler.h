// GradScaler: loss scaling for fp16, which loses gradients below 6e-8. Backward starts from the
// loss times a scale. An update with a non-finite gradient is skipped and lowers the scale; many
// good updates in a row raise it. The optimizer detects non-finite gradients, unscales and skips.
// The state is in StepState on the device, so the host never waits and a captured graph contains
// all of it.
//
//   backward(loss, {.loss_scale = state.loss_scale()});
//   optimizer.step(state);      // changes nothing if found_inf
//   scaler.update();
//
// Micikevicius et al., "Mixed Precision Training", ICLR 2018.
#pragma once
#include "core/tensor/step_state.h"

namespace bellows {

class Visitor;

struct GradScalerOptions {
  double init_scale = 1024;
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good updates in a row before the scale grows
  double min_scale = 1;            // lower limit of the scale
};
void visit(Visitor& v, GradScalerOptions& o);

class GradScaler {
 public:
  // If enabled, writes the initial scale to `state`, which must outlive this object. Otherwise
  // update() does nothing, and the scale remains 1.
  GradScaler(bool enabled, const GradScalerOptions& options, DeviceStepState& state);

  void update() const;  // call it after the optimizer's step

 private:
  const bool enabled_;
  const GradScalerOptions options_;
  DeviceStepState& state_;
};

// Adjusts the scale after one update. Shared by the CPU and the CUDA kernel.
HD inline void move_scale(StepState& s, const GradScalerOptions& o) {
  s.good_updates = s.found_inf ? 0 : s.good_updates + 1;
  const bool grows = s.good_updates >= o.growth_interval;
  const double factor = s.found_inf ? o.backoff_factor : grows ? o.growth_factor : 1;
  const double scale = s.loss_scale * factor;
  if (grows) s.good_updates = 0;
  // A scale beyond the largest float would make every later gradient non-finite.
  if (scale < 3e38) s.loss_scale = float(scale < o.min_scale ? o.min_scale : scale);
  s.inverse_scale = 1 / s.loss_scale;
}

namespace kernels {
inline constinit Kernel<void(Device device, StepState* state, const GradScalerOptions& options)>
    move_scale{"grad_scaler"};
}
}  // namespace bellows
