// The optimizer: an update rule applied to a model's parameters.
#pragma once
#include "core/choice.h"
#include "core/named.h"
#include "core/visitor.h"
#include "optim/rule.h"

namespace bellows {

struct OptimizerOptions {
  Choice<UpdateRule()> rule{"sgd"};
  bool fused = false;
  bool set_to_none = false;
  double clip_norm = 0;
  bool skip_nonfinite = false;
};
void visit(Visitor& v, OptimizerOptions& o);

class Optimizer {
 public:
  // Parameters: leaves, dense, of one dtype (f32 or f64) on one device; they are updated in place.
  // lr_table: f64, the learning rate by applied updates; its last entry stays in force.
  Optimizer(const OptimizerOptions& options, const NamedTensors& parameters,
            const Tensor& lr_table);

  // One update from the gradients that the parameters hold; one without a gradient is left alone.
  // The host waits for nothing. With a non-finite gradient (found by clip_norm or skip_nonfinite,
  // or told by state.found_inf) nothing but state.skipped changes.
  //
  // Counts its launches in optim.launches: one pass for each parameter and operation, or, fused,
  // one in all (also in optim.fused_launches). The norm, where needed, is one more before them.
  void step(DeviceStepState& state);
  void zero_grad();

  // What a checkpoint keeps, "momentum.conv1.weight"; copy_into() them to resume.
  NamedTensors state() const;

 private:
  Tensors gradients() const;
  void measure(const Tensors& grads, DeviceStepState& state) const;
  void launch(const Launch& launch) const;
  void step_each(Launch update) const;

  UpdateRule rule_;
  bool fused_, set_to_none_, skip_nonfinite_;
  double clip_norm_;
  std::vector<std::string> names_;
  std::vector<Tensor> weights_, buffers_;
  std::vector<int64_t> starts_;
  Tensor lr_table_;
};

namespace kernels {
// state->grad_norm: of the unscaled gradients; state->found_inf: it is not finite.
inline constinit Kernel<void(TensorSpan grads, StepState* state)> grad_norm{"grad_norm"};
}  // namespace kernels
}  // namespace bellows
