// Optimizer: applies update rules to a model's parameters.
#pragma once
#include "core/base/words.h"
#include "core/config/choice.h"
#include "core/tensor/tensor.h"
#include "optim/rule.h"

namespace bellows {

// Parameters that have an update rule of their own.
struct GroupOptions {
  std::string parameters;  // "norms", "biases", or their names as a shell pattern: "head.*"
  Choice<UpdateRule()> rule{"sgd"};
  bool freeze_statistics = false;  // freezes the group's norms; applied by the model's owner
};
void visit(Visitor& v, GroupOptions& o);

struct OptimizerOptions {
  Choice<UpdateRule()> rule{"sgd"};
  std::vector<GroupOptions> groups = {};  // a parameter belongs to the first that matches it
  bool fused = false;
  bool set_to_none = false;
  double clip_norm = 0;
  bool skip_nonfinite = false;
  double ema_decay = 0;  // decay of the model's average (optim/ema.h); 0: no average
  Names norms = {};      // paths of the model's norms; set by its owner
};
void visit(Visitor& v, OptimizerOptions& o);
// Returns the index of the first group that has the parameter, or the number of groups.
size_t group_of(const OptimizerOptions& options, const std::string& parameter);

class Optimizer {
 public:
  // Parameters: dense leaves of one dtype (f32 or f64) on one device, updated in place. lr_table:
  // f64, rank 1, the learning rate after n applied updates; its last entry stays in force.
  // group_tables: one such table for each of options.groups. Throws Error(Exit::usage), also for a
  // parameter that its rule cannot update.
  Optimizer(const OptimizerOptions& options, const NamedTensors& parameters, const Tensor& lr_table,
            std::span<const Tensor> group_tables = {});

  // Applies one update, from the gradients of the parameters; skips parameters without one. Never
  // waits for the device. If a gradient is not finite (detected by clip_norm or skip_nonfinite, or
  // set in state.found_inf), changes no parameter or buffer and increments state.skipped. Throws
  // Error(Exit::usage) if no parameter has a gradient.
  //
  // If fused, reads 16-bit gradients as they are (counter optim.low_grads), and also writes the
  // 16-bit copies of weights that products have read since the last update (counter
  // optim.copies_written); the next forward casts the others. Counter optim.launches: kernels
  // launched. One for each parameter and pass or, if fused, for each group (also in
  // optim.fused_launches), plus one for the norm of each group if it is needed. On a GPU a launch
  // takes up to 500 parameters.
  void step(DeviceStepState& state);
  // True if step() checks for non-finite gradients.
  bool may_skip() const { return clip_norm_ > 0 || skip_nonfinite_; }
  void zero_grad();
  // True if backward() may leave gradients in 16 bits: a fused update reads them as they are, and
  // no gradient is filled with zeros and added to.
  bool reads_low_grads() const { return fused_ && set_to_none_; }
  // Replaces the learning rates by tables of the same sizes. The memory of the tables stays in
  // place, so a captured update reads the new ones.
  void set_rates(const Tensor& lr_table, std::span<const Tensor> group_tables);

  // State for a checkpoint, "momentum.conv1.weight"; copy_into() these tensors to resume.
  NamedTensors state() const;

 private:
  // Parameters of one rule; all lists are parallel to the weights.
  struct Group {
    UpdateRule rule;
    Tensor lr_table;
    Names names = {};
    std::vector<Tensor> weights = {}, buffers = {};  // the rule's buffers of a weight are adjacent
    std::vector<int64_t> starts = {0};

    void add(const NamedTensor& parameter);
    Tensors gradients(bool low) const;
  };
  void count_launches(int64_t n) const;
  StepSource source(const Group& group, const DeviceStepState& state) const;
  void step(const Group& group, const Tensors& grads, bool last, DeviceStepState& state) const;
  void step_each(const Group& group, const Launch& all) const;

  std::vector<Group> groups_;  // the last has the parameters that no options.groups matches
  bool fused_, set_to_none_, skip_nonfinite_;
  double clip_norm_;
};

// Adds the norm of a group's gradients to state->grad_norm, which is without the loss scale, and
// sets state->found_inf if it is not finite. A group whose learning rate stays 0 from now on counts
// for found_inf only, so that frozen parameters do not shorten the steps of the others. `first`:
// the group is the first of this update.
HD inline void add_norm(const StepSource& group, double norm, bool first) {
  StepState& s = *group.state;
  const double before = first ? 0 : s.grad_norm, now = norm * s.inverse_scale;
  const bool frozen = group.values().lr == 0 && group.lr_table[group.lr_updates - 1] == 0;
  s.found_inf = (!first && s.found_inf) || !std::isfinite(now);
  s.grad_norm = float(frozen ? before : std::hypot(before, now));
}

namespace kernels {
// Calls add_norm() on the device. Returns the number of launches.
inline constinit Kernel<int64_t(TensorSpan grads, const StepSource& group, bool first)> grad_norm{
    "grad_norm"};
}  // namespace kernels
}  // namespace bellows
