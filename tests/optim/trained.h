// Runs a few updates of parameters of odd sizes, with any rule, on any device.
#pragma once
#include <gtest/gtest.h>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include "autograd/backward.h"
#include "core/config/values.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "optim/optimizer.h"
#include "tests/refusal.h"

namespace bellows {

using Texts = std::map<std::string, std::string>;  // options, as in a config

inline OptimizerOptions rule_options(const std::string& name, const Texts& texts = {}) {
  Values source{{"name", {name}}};
  for (const auto& [key, text] : texts) source[key].text = text;
  return load(OptimizerOptions{}, source);
}
inline OptimizerOptions sgd_options(const Texts& texts = {}) { return rule_options("sgd", texts); }

inline Tensor rates(const std::vector<double>& values) {
  return tensor_of(values, {int64_t(values.size())});
}

inline Tensor normal(const Shape& shape, DType dtype, uint64_t seed) {
  Tensor t(shape, dtype);
  fill_normal(t, 0, 1, {.seed = seed});
  return t;
}

// Returns one of a few cached gradients, since drawing them takes longer than the updates.
inline Tensor gradient(size_t parameter, int step, const Shape& shape, DType dtype) {
  static std::map<std::tuple<uint64_t, DType, std::string>, Tensor> drawn;
  const uint64_t seed = 100 + 3 * parameter + step % 3;
  Tensor& g = drawn[{seed, dtype, cat(shape)}];
  if (!g.defined()) g = normal(shape, dtype, seed);
  return clone(g);
}

inline void set_grad(const Tensor& leaf, const Tensor& g) { leaf_of(leaf).grad = g; }

// Sizes of full vectors, of less than a vector, and of several chunks.
inline const std::vector<Shape> kOddShapes = {{3}, {17, 5}, {1}, {9001}, {0}, {129, 131}, {8192}};

inline NamedTensors odd_parameters(DType dtype, Device device = Device::cpu) {
  NamedTensors parameters;
  for (size_t i = 0; i < kOddShapes.size(); ++i)
    parameters.push_back(
        {"p" + std::to_string(i), require_grad(to(device, normal(kOddShapes[i], dtype, i)))});
  return parameters;
}

struct Trained {
  std::vector<Tensor> weights;
  NamedTensors state;
  StepState step;
};

// `as` converts each gradient before the update.
inline Trained train(
    OptimizerOptions options, bool fused, int steps, DType dtype = DType::f32,
    Device device = Device::cpu,
    const std::function<Tensor(const Tensor&)>& as = [](const Tensor& g) { return g; }) {
  options.fused = fused;
  const NamedTensors parameters = odd_parameters(dtype, device);
  Optimizer optimizer(options, parameters, rates({0.1, 0.05, 0.2, 0.01}));
  DeviceStepState state(device);
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool frozen = i == 1 && step % 3 == 1;
      const Tensor& w = parameters[i].tensor;
      set_grad(w, frozen ? Tensor() : as(to(device, gradient(i, step, w.shape(), dtype))));
    }
    optimizer.step(state);
    optimizer.zero_grad();
  }
  Trained result{{}, {}, state.read()};  // which waits for the device
  for (const NamedTensor& p : parameters)
    result.weights.push_back(to(Device::cpu, p.tensor.detach()));
  for (const auto& [name, t] : optimizer.state())
    result.state.push_back({name, to(Device::cpu, t)});
  return result;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.bytes(), b.bytes(), a.nbytes()) == 0;
}
inline void expect_same_bits(const Trained& a, const Trained& b, const std::string& what) {
  for (size_t i = 0; i < a.weights.size(); ++i)
    EXPECT_TRUE(same_bits(a.weights[i], b.weights[i])) << what << ", weight " << i;
  for (size_t i = 0; i < a.state.size(); ++i)
    EXPECT_TRUE(same_bits(a.state[i].tensor, b.state[i].tensor)) << what << a.state[i].name;
}

// Expects that an update reads gradients in 16 bits as their values in f32.
inline void expect_bits_of_casts(OptimizerOptions options, bool fused, Device device, int updates) {
  options.clip_norm = 3;
  for (const DType low : {DType::bf16, DType::f16}) {
    const auto narrow = [&](const Tensor& g) { return cast(g, low); };
    const auto widened = [&](const Tensor& g) { return cast(cast(g, low), DType::f32); };
    expect_same_bits(train(options, fused, updates, DType::f32, device, widened),
                     train(options, fused, updates, DType::f32, device, narrow),
                     cat(options.rule.name(), " ", low, fused ? " fused" : " plain"));
  }
}

// Values that an option takes in every_variant(): both of a bool; 0 and more than 0 of a number
// that is 0 by default, and of weight decay. Empty: leaves the default.
inline std::vector<std::string> settings_of(const std::string& key, const std::string& text) {
  if (text == "false" || text == "true") return {"false", "true"};
  if (key == "weight_decay") return {"0", "0.01"};
  if (text == "0") return {"0", "0.9"};
  return {};
}

// Returns a rule with all settings of its options that it does not refuse.
inline std::vector<OptimizerOptions> variants_of(const std::string& name) {
  Choice<UpdateRule()> rule(name);
  Listing own;
  own.choice("name", rule, "");
  std::vector<Texts> all(1);
  for (const auto& [key, value] : values_of(own)) {
    const std::vector<std::string> settings = settings_of(key, value.text);
    if (settings.empty()) continue;
    std::vector<Texts> more;
    for (Texts texts : all)
      for (const std::string& setting : settings) {
        texts[key] = setting;
        more.push_back(texts);
      }
    all = std::move(more);
  }
  std::vector<OptimizerOptions> variants;
  for (const Texts& texts : all) {
    const OptimizerOptions options = rule_options(name, texts);
    if (refused([&] { options.rule.make(); }).exit == Exit::done) variants.push_back(options);
  }
  return variants;
}

// Returns all variants of every registered rule, without and with clipping.
inline std::vector<OptimizerOptions> every_variant() {
  std::vector<OptimizerOptions> all;
  for (const std::string& name : Choice<UpdateRule()>::names())
    for (OptimizerOptions options : variants_of(name))
      for (const double clip_norm : {0, 3}) {
        options.clip_norm = clip_norm;
        all.push_back(options);
      }
  return all;
}

}  // namespace bellows
