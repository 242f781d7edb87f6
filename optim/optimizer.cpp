#include "optim/optimizer.h"
#include <fnmatch.h>
#include <cmath>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/tensor/copy.h"

namespace bellows {

static constexpr const char* kOtherRule =
    "the checkpoint holds the state of the other optimizer; undo the change, or start a new run "
    "from the weights alone with  train.weights=FILE";

void visit(Visitor& v, GroupOptions& o) {
  v("parameters", o.parameters, "norms, biases, or their names as a shell pattern: head.*")
      .fixed(kOtherRule);
  v.choice("name", o.rule, "their update rule").fixed(kOtherRule);
  v("freeze_statistics", o.freeze_statistics,
    "norms of the group use their running statistics in training, too, and leave them alone");
}

void visit(Visitor& v, OptimizerOptions& o) {
  v.choice("name", o.rule, "update rule").fixed(kOtherRule).also({"optim"});
  v.groups("groups", o.groups, "parameters with a rule of their own").fixed(kOtherRule);
  v("fused", o.fused, "one pass over all parameters instead of several for each");
  v("set_to_none", o.set_to_none, "drop the gradients after a step instead of writing zeros");
  v("clip_norm", o.clip_norm, "largest norm of all gradients together; 0: no limit", {.min = 0})
      .also({"clip_grad", "clip_grad_norm", "grad_clip", "gradient_clip_val", "gradient_clipping",
             "max_grad_norm"});
  v("skip_nonfinite", o.skip_nonfinite, "leave out an update whose gradients are not finite");
  v("ema_decay", o.ema_decay, "evaluate and export an average of the model over updates; 0: off",
    {.min = 0, .max = 1});
  v.require("ema_decay", o.ema_decay < 1, "must be less than 1, or the average would never move");
}

size_t group_of(const OptimizerOptions& options, const std::string& parameter) {
  const auto has = [&](const GroupOptions& g) {
    const std::string layer = parameter.substr(0, parameter.rfind('.'));
    if (g.parameters == "norms") return std::ranges::count(options.norms, layer) > 0;
    const std::string pattern = g.parameters == "biases" ? "*.bias" : g.parameters;
    return fnmatch(pattern.c_str(), parameter.c_str(), FNM_NOESCAPE) == 0;
  };
  return std::ranges::find_if(options.groups, has) - options.groups.begin();
}

void Optimizer::Group::add(const NamedTensor& parameter) {
  const Tensor& w = parameter.tensor;
  names.push_back(parameter.name);
  weights.push_back(w);
  starts.push_back(starts.back() + w.numel());
  for (size_t k = 0; k < rule.buffers.size(); ++k) {
    buffers.push_back(empty_like(w));
    fill(buffers.back(), 0);
  }
}

Optimizer::Optimizer(const OptimizerOptions& options, const NamedTensors& parameters,
                     const Tensor& lr_table, std::span<const Tensor> group_tables)
    : fused_(options.fused),
      set_to_none_(options.set_to_none),
      skip_nonfinite_(options.skip_nonfinite),
      clip_norm_(options.clip_norm) {
  CHECK(!parameters.empty(), "optimizer: no parameters");
  INVARIANT(group_tables.size() == options.groups.size(), "a table for each group");
  const Tensor& first = parameters.front().tensor;
  const auto add_group = [&](const Choice<UpdateRule()>& rule, const Tensor& table) {
    CHECK(table.dtype() == DType::f64 && table.rank() == 1 && table.numel() > 0,
          "optimizer: the table of learning rates is ", table.dtype(), " ", table.shape());
    groups_.push_back({rule.make(), to(first.device(), contiguous(table))});
  };
  for (size_t i = 0; i < group_tables.size(); ++i)
    add_group(options.groups[i].rule, group_tables[i]);
  add_group(options.rule, lr_table);
  for (const NamedTensor& parameter : parameters) {
    const auto& [name, w] = parameter;
    CHECK(is_leaf(w) && w.is_dense() && w.dtype() == first.dtype() && w.device() == first.device(),
          "optimizer: '", name, "', ", w.dtype(), " on ", w.device(),
          ", is not a dense leaf like '", parameters.front().name, "', ", first.dtype(), " on ",
          first.device());
    groups_[group_of(options, name)].add(parameter);
  }
  for (size_t i = 0; i < options.groups.size(); ++i)
    CHECK(!groups_[i].weights.empty(), "optimizer.groups: no parameter is left that '",
          options.groups[i].parameters, "' names; the first one is '", parameters.front().name,
          "'");
}

// A gradient in memory from place_grad() may have other strides than its weight. `low`: 16-bit
// gradients are passed as they are.
Tensors Optimizer::Group::gradients(bool low) const {
  Tensors grads;
  grads.reserve(weights.size());
  for (const Tensor& w : weights) {
    const Tensor& g = grad(w);
    grads.push_back(g.defined() ? laid_out(low ? g : cast(g, w.dtype()), w.strides()) : g);
    if (g.defined() && grads.back().dtype() != w.dtype()) trace::count<"optim.low_grads">();
  }
  return grads;
}

void Optimizer::count_launches(int64_t n) const {
  trace::count<"optim.launches">(n);
  if (fused_) trace::count<"optim.fused_launches">(n);
}

StepSource Optimizer::source(const Group& group, const DeviceStepState& state) const {
  return {state.get(), group.lr_table.ptr<double>(), group.lr_table.numel(), clip_norm_};
}

// The plain form: one launch per pass and tensor. Between passes the direction is in memory.
void Optimizer::step_each(const Group& group, const Launch& all) const {
  Launch next = all;
  const size_t kept = group.rule.buffers.size();
  size_t left = std::ranges::count_if(all.grads, &Tensor::defined);
  for (size_t i = 0; i < group.weights.size(); ++i) {
    if (!all.grads[i].defined()) continue;
    --left;
    const Tensor direction = empty_like(group.weights[i]);
    next.weights = all.weights.subspan(i, 1);
    next.grads = all.grads.subspan(i, 1);
    next.buffers = all.buffers.subspan(i * kept, kept);
    next.directions = {&direction, 1};
    next.copies = all.copies.subspan(i, 1);
    next.starts = all.starts.subspan(i, 2);
    for (next.pass = 0; next.pass < group.rule.passes; ++next.pass) {
      next.last = all.last && left == 0 && next.pass == group.rule.passes - 1;
      count_launches(group.rule.run(next));
    }
  }
}

void Optimizer::step(const Group& group, const Tensors& grads, bool last,
                     DeviceStepState& state) const {
  // Includes weights without a gradient: their values do not change, so their copies stay valid.
  Tensors copies(group.weights.size());
  if (fused_) std::ranges::transform(group.weights, copies.begin(), amp::copy_in_use);
  const Launch whole{.weights = group.weights,
                     .grads = grads,
                     .buffers = group.buffers,
                     .copies = copies,
                     .starts = group.starts,
                     .pass = kAllPasses,
                     .last = last,
                     .step = source(group, state)};
  fused_ ? count_launches(group.rule.run(whole)) : step_each(group, whole);
  trace::count<"optim.copies_written">(std::ranges::count_if(copies, &Tensor::defined));
  for (size_t i = 0; i < copies.size(); ++i) amp::written(group.weights[i], copies[i]);
}

static bool any_defined(const Tensors& grads) {
  return std::ranges::any_of(grads, &Tensor::defined);
}

void Optimizer::step(DeviceStepState& state) {
  const trace::Range range("optimizer");
  std::vector<Tensors> grads;
  for (const Group& group : groups_) grads.push_back(group.gradients(fused_));
  size_t last = grads.size();
  for (size_t i = 0; i < grads.size(); ++i)
    if (any_defined(grads[i])) last = i;
  CHECK(last < grads.size(),
        "optimizer: no parameter has a gradient; call backward() before step()");
  bool first = true;
  for (size_t i = 0; may_skip() && i <= last; ++i) {
    Tensors present;
    std::ranges::copy_if(grads[i], std::back_inserter(present), &Tensor::defined);
    if (present.empty()) continue;
    count_launches(kernels::grad_norm(present, source(groups_[i], state), first));
    first = false;
  }
  for (size_t i = 0; i <= last; ++i)
    if (any_defined(grads[i])) step(groups_[i], grads[i], i == last, state);
}

void Optimizer::zero_grad() {
  const trace::Range range("zero_grad");
  for (const Group& group : groups_) bellows::zero_grad(group.weights, set_to_none_);
}

void Optimizer::set_rates(const Tensor& lr_table, std::span<const Tensor> group_tables) {
  INVARIANT(group_tables.size() + 1 == groups_.size(), "a table for each group");
  for (size_t i = 0; i < group_tables.size(); ++i) copy_into(groups_[i].lr_table, group_tables[i]);
  copy_into(groups_.back().lr_table, lr_table);
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  for (const auto& [rule, table, names, weights, buffers, starts] : groups_)
    for (size_t i = 0; i < buffers.size(); ++i) {
      const size_t kept = rule.buffers.size();
      all.push_back({rule.buffers[i % kept] + "." + names[i / kept], buffers[i]});
    }
  return all;
}

// ---- CPU

static int64_t grad_norm_cpu(TensorSpan grads, const StepSource& group, bool first) {
  add_norm(group, norm_of(grads).item(), first);
  return 1;
}
static const bool grad_norm_on_cpu = kernels::grad_norm.on(Device::cpu, grad_norm_cpu);

}  // namespace bellows
