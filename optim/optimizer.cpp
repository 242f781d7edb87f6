#include "optim/optimizer.h"
#include <cmath>
#include <numeric>
#include "autograd/backward.h"
#include "core/copy.h"
#include "core/trace.h"

namespace bellows {

void visit(Visitor& v, OptimizerOptions& o) {
  v.choice("name", o.rule, "update rule");
  v("fused", o.fused, "one pass over all parameters instead of several for each");
  v("set_to_none", o.set_to_none, "drop the gradients after a step instead of writing zeros");
  v("clip_norm", o.clip_norm, "largest norm of all gradients together; 0: no limit", {.min = 0});
  v("skip_nonfinite", o.skip_nonfinite, "leave out an update whose gradients are not finite");
}

Optimizer::Optimizer(const OptimizerOptions& options, const NamedTensors& parameters,
                     const Tensor& lr_table)
    : rule_(options.rule.make()),
      fused_(options.fused),
      set_to_none_(options.set_to_none),
      skip_nonfinite_(options.skip_nonfinite),
      clip_norm_(options.clip_norm),
      starts_{0} {
  CHECK(!parameters.empty(), "optimizer: no parameters");
  CHECK(lr_table.dtype() == DType::f64 && lr_table.rank() == 1 && lr_table.numel() > 0,
        "optimizer: the table of learning rates is ", lr_table.dtype(), " ", lr_table.shape());
  const Tensor& first = parameters.front().tensor;
  lr_table_ = to(first.device(), contiguous(lr_table));
  for (const auto& [name, w] : parameters) {
    CHECK(is_leaf(w) && w.is_dense() && w.dtype() == first.dtype() && w.device() == first.device(),
          "optimizer: '", name, "', ", w.dtype(), " on ", w.device(),
          ", is not a dense leaf like '", parameters.front().name, "', ", first.dtype(), " on ",
          first.device());
    names_.push_back(name);
    weights_.push_back(w);
    starts_.push_back(starts_.back() + w.numel());
    for (size_t k = 0; k < rule_.buffers.size(); ++k) {
      buffers_.push_back(empty_like(w));
      fill(buffers_.back(), 0);
    }
  }
}

// A dense gradient may have come in another memory order than its weight.
static Tensor laid_out_as(const Tensor& w, const Tensor& g) {
  if (!g.defined() || g.strides() == w.strides()) return g;
  const Tensor y = empty_like(w);
  copy_into(y, g);
  return y;
}

Tensors Optimizer::gradients() const {
  Tensors grads;
  grads.reserve(weights_.size());
  for (const Tensor& w : weights_) grads.push_back(laid_out_as(w, grad(w)));
  return grads;
}

static void count_launch(bool fused) {
  static trace::Counter& all = trace::counter("optim.launches");
  static trace::Counter& of_fused = trace::counter("optim.fused_launches");
  all.add();
  if (fused) of_fused.add();
}

void Optimizer::measure(const Tensors& grads, DeviceStepState& state) const {
  Tensors present;
  std::ranges::copy_if(grads, std::back_inserter(present), &Tensor::defined);
  kernels::grad_norm(present, state.get());
  count_launch(fused_);
}

void Optimizer::launch(const Launch& launch) const {
  rule_.run(launch);
  count_launch(fused_);
}

// The plain form: each pass over each tensor, with the direction in memory in between.
void Optimizer::step_each(Launch next) const {
  const Launch all = next;
  const size_t kept = rule_.buffers.size();
  size_t left = std::ranges::count_if(all.grads, &Tensor::defined);
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!all.grads[i].defined()) continue;
    --left;
    const Tensor direction = empty_like(weights_[i]);
    next.weights = all.weights.subspan(i, 1);
    next.grads = all.grads.subspan(i, 1);
    next.buffers = all.buffers.subspan(i * kept, kept);
    next.directions = {&direction, 1};
    next.starts = all.starts.subspan(i, 2);
    for (const unsigned pass : rule_.passes) {
      next.passes = pass;
      next.last = left == 0 && pass == rule_.passes.back();
      launch(next);
    }
  }
}

void Optimizer::step(DeviceStepState& state) {
  const trace::Range range("optimizer");
  const Tensors grads = gradients();
  CHECK(std::ranges::any_of(grads, &Tensor::defined),
        "optimizer: no parameter has a gradient; call backward() before step()");
  if (clip_norm_ > 0 || skip_nonfinite_) measure(grads, state);
  const Launch whole{.weights = weights_,
                      .grads = grads,
                      .buffers = buffers_,
                      .starts = starts_,
                      .passes = std::reduce(rule_.passes.begin(), rule_.passes.end(), 0u),
                      .last = true,
                      .state = state.get(),
                      .lr_table = lr_table_.ptr<double>(),
                      .lr_updates = lr_table_.numel(),
                      .clip_norm = clip_norm_};
  fused_ ? launch(whole) : step_each(whole);
  for (const Tensor& w : weights_) w.raise_version();
}

void Optimizer::zero_grad() {
  const trace::Range range("zero_grad");
  bellows::zero_grad(weights_, set_to_none_);
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const size_t kept = rule_.buffers.size();
    all.push_back({rule_.buffers[i % kept] + "." + names_[i / kept], buffers_[i]});
  }
  return all;
}

// ---- CPU

static void grad_norm_cpu(TensorSpan grads, StepState* state) {
  const double norm = norm_of(grads).item() * state->inverse_scale;
  state->grad_norm = static_cast<float>(norm);
  state->found_inf = !std::isfinite(norm);
}
static const bool cpu = kernels::grad_norm.on(Device::cpu, grad_norm_cpu);

}  // namespace bellows
