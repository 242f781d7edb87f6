// Runs a few updates of parameters of odd sizes, with any rule, on any device.
#pragma once
#include <gtest/gtest.h>
#include <cstring>
#include <map>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "optim/adam.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"

namespace bellows {

inline OptimizerOptions sgd_options(const SgdOptions& sgd) {
  OptimizerOptions options;
  options.rule.as<SgdOptions>() = sgd;
  return options;
}
template <class Options> OptimizerOptions adam_options(const char* name, const Options& adam) {
  OptimizerOptions options;
  options.rule.choose(name);
  options.rule.as<Options>() = adam;
  return options;
}

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
  static std::map<std::pair<uint64_t, DType>, Tensor> drawn;
  const uint64_t seed = 100 + 3 * parameter + step % 3;
  Tensor& g = drawn[{seed, dtype}];
  if (!g.defined()) g = normal(shape, dtype, seed);
  return clone(g);
}

inline void set_grad(const Tensor& leaf, const Tensor& g) { leaf_of(leaf).grad = g; }

// Sizes of full vectors, of less than a vector, and of several chunks.
inline NamedTensors odd_parameters(DType dtype, Device device = Device::cpu) {
  NamedTensors parameters;
  const std::vector<Shape> shapes = {{3}, {17, 5}, {1}, {9001}, {0}, {129, 131}, {8192}};
  for (size_t i = 0; i < shapes.size(); ++i)
    parameters.push_back(
        {"p" + std::to_string(i), require_grad(to(device, normal(shapes[i], dtype, i)))});
  return parameters;
}

struct Trained {
  std::vector<Tensor> weights;
  NamedTensors state;
  StepState step;
};

inline Trained train(OptimizerOptions options, bool fused, int steps, DType dtype = DType::f32,
                     Device device = Device::cpu) {
  options.fused = fused;
  const NamedTensors parameters = odd_parameters(dtype, device);
  Optimizer optimizer(options, parameters, rates({0.1, 0.05, 0.2, 0.01}));
  DeviceStepState state(device);
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool frozen = i == 1 && step % 3 == 1;
      const Tensor& w = parameters[i].tensor;
      set_grad(w, frozen ? Tensor() : to(device, gradient(i, step, w.shape(), dtype)));
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

inline std::vector<OptimizerOptions> every_variant() {
  std::vector<OptimizerOptions> all;
  for (const double decay : {0.0, 0.01}) {
    for (const double momentum : {0.0, 0.9})
      all.push_back(sgd_options({.momentum = momentum, .weight_decay = decay}));
    all.push_back(sgd_options({.momentum = 0.9, .weight_decay = decay, .nesterov = true}));
    AdamWOptions adam;
    adam.weight_decay = decay;
    all.push_back(adam_options<AdamOptions>("adam", adam));
    all.push_back(adam_options("adamw", adam));
  }
  for (size_t i = 0, n = all.size(); i < n; ++i) {
    all.push_back(all[i]);
    all.back().clip_norm = 3;
  }
  return all;
}

}  // namespace bellows
