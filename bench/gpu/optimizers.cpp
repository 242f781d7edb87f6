// Fused optimizer update of 160 parameters, without and with clipping by the gradient norm.
#include <memory>
#include "autograd/record.h"
#include "bench/gpu/bandwidth.h"
#include "core/config/values.h"
#include "optim/optimizer.h"

namespace bellows {

// Parameters are f32, as master weights are.
static Task update(const Setup& s, const Choice<UpdateRule()>& rule, double clip_norm = 0) {
  constexpr int kWeights = 160;
  const Setup masters{s.n / kWeights, DType::f32, s.device};
  NamedTensors weights;
  for (int i = 0; i < kWeights; ++i) {
    weights.push_back({std::to_string(i), require_grad(masters.normal({masters.n}))});
    leaf_of(weights.back().tensor).grad = masters.normal({masters.n});
  }
  const OptimizerOptions options{.rule = rule, .fused = true, .clip_norm = clip_norm};
  const auto optimizer = std::make_shared<Optimizer>(options, weights, full({1}, 1e-4, DType::f64));
  const auto state = std::make_shared<DeviceStepState>(s.device);
  // Reads and writes weights and buffers; reads gradients once, and again for their norm.
  const int64_t passes = 2 * (1 + rule.make().buffers.size()) + 1 + (clip_norm > 0);
  return {passes * kWeights * masters.n * 4, [=] { return optimizer->step(*state), Outputs{}; }};
}

static Choice<UpdateRule()> momentum() {
  return load(OptimizerOptions{}, {{"name", {"sgd"}}, {"momentum", {"0.9"}}}).rule;
}

static const AddCases cases{
    {"sgd, momentum", "w, g, v; w, v", [](const Setup& s) { return update(s, momentum()); }},
    {"adamw", "w, g, m, s; w, m, s",
     [](const Setup& s) { return update(s, Choice<UpdateRule()>("adamw")); }},
    {"adamw, clipped", "g; then w, g, m, s; w, m, s",
     [](const Setup& s) { return update(s, Choice<UpdateRule()>("adamw"), 1); }},
};

}  // namespace bellows
