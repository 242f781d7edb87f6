// The optimizer: an update rule applied to a model's parameters.
#pragma once
#include "core/config/choice.h"
#include "core/config/visitor.h"
#include "core/tensor/named.h"
#include "optim/rule.h"

namespace bellows {

// Parameters that are updated by a rule of their own.
struct GroupOptions {
  std::string parameters;  // their names, * for any characters: "*.bias"
  Choice<UpdateRule()> rule{"sgd"};
  double epochs = 0;  // over which its schedule is stretched; then it rests. 0: the whole run
};
void visit(Visitor& v, GroupOptions& o);

struct OptimizerOptions {
  Choice<UpdateRule()> rule{"sgd"};
  std::vector<GroupOptions> groups = {};  // a parameter belongs to the first that names it
  bool fused = false;
  bool set_to_none = false;
  double clip_norm = 0;
  bool skip_nonfinite = false;
  double ema_decay = 0;  // of the average of the model: optim/ema.h
};
void visit(Visitor& v, OptimizerOptions& o);

class Optimizer {
 public:
  // Parameters: leaves, dense, of one dtype (f32 or f64) on one device; they are updated in place.
  // lr_table: f64, the learning rate by applied updates; its last entry stays in force. One more
  // for each of options.groups.
  Optimizer(const OptimizerOptions& options, const NamedTensors& parameters, const Tensor& lr_table,
            std::span<const Tensor> group_tables = {});

  // One update from the gradients that the parameters hold; one without a gradient is left alone.
  // The host waits for nothing. With a non-finite gradient (found by clip_norm or skip_nonfinite,
  // or told by state.found_inf) nothing but state.skipped changes.
  //
  // Counts its launches in optim.launches: one pass for each parameter and operation, or, fused,
  // one a group (also in optim.fused_launches). The norm, where needed, is one more before them.
  // Fused, it writes along the 16-bit copies that products have read since the last update, counted
  // in optim.copies_written; the others the next forward casts.
  void step(DeviceStepState& state);
  void zero_grad();
  // Replaces the learning rates, with tables of the same sizes. Their memory stays where it is, so
  // a captured update reads the new ones.
  void set_rates(const Tensor& lr_table, std::span<const Tensor> group_tables);

  // What a checkpoint keeps, "momentum.conv1.weight"; copy_into() them to resume.
  NamedTensors state() const;

 private:
  // What one rule updates; all lists run parallel to the weights.
  struct Group {
    UpdateRule rule;
    Tensor lr_table;
    std::vector<std::string> names = {};
    std::vector<Tensor> weights = {}, buffers = {};  // of each weight the rule's, side by side
    std::vector<int64_t> starts = {0};

    void add(const NamedTensor& parameter);
    Tensors gradients() const;
    Tensors copies() const;  // in 16 bits, that products have read
  };
  void measure(const std::vector<Tensors>& grads, DeviceStepState& state) const;
  void step(const Group& group, const Tensors& grads, bool last, DeviceStepState& state) const;
  void launch(const Group& group, const Launch& launch) const;
  void step_each(const Group& group, Launch update) const;

  std::vector<Group> groups_;  // the last one takes what the options' groups leave
  bool fused_, set_to_none_, skip_nonfinite_;
  double clip_norm_;
};

namespace kernels {
// state->grad_norm: of the unscaled gradients; state->found_inf: it is not finite.
inline constinit Kernel<void(TensorSpan grads, StepState* state)> grad_norm{"grad_norm"};
}  // namespace kernels
}  // namespace bellows
