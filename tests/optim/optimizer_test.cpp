// The optimizer, and its rules against PyTorch's in f64. What holds for every rule is in
// every_rule_test.cpp.
#include "optim/optimizer.h"
#include <gtest/gtest.h>
#include <cmath>
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

// Updates one weight with these gradients.
double ours(const OptimizerOptions& options, double w, const std::vector<double>& grads,
            double lr) {
  const Tensor leaf = require_grad(tensor_of<double>({w}, {1}));
  Optimizer optimizer(options, {{"w", leaf}}, rates({lr}));
  DeviceStepState state(Device::cpu);
  for (const double g : grads) {
    set_grad(leaf, tensor_of<double>({g}, {1}));
    optimizer.step(state);
  }
  return leaf.item();
}

const std::vector<double> kGrads = {0.5, -1.25, 2, 0.125, -0.75};

}  // namespace

// w = 1.5, lr 0.1 and the five gradients, in f64. torch.optim 2.15.0 produced the values with
// weight decay, except the first. The others follow from the formulas in its documentation.
TEST(Optimizer, AgreesWithNumbersFromPyTorch) {
  struct Case {
    const char* rule;
    Texts options;
    double without_decay, with_decay;  // 0.05
  };
  for (const auto& [rule, options, without_decay, with_decay] :
       {Case{"sgd", {}, 1.4375, 1.4015575140265621},
        {"sgd", {{"momentum", "0.9"}}, 1.23437, 1.1394490661515624},
        {"sgd", {{"momentum", "0.9"}, {"nesterov", "true"}}, 1.198433, 1.0810332523580206},
        {"adam", {}, 1.3709138521765734, 1.3483907332487028},
        {"adamw", {}, 1.3709138521765734, 1.3356041925652555}})
    for (const bool decays : {false, true}) {
      Texts texts = options;
      texts["weight_decay"] = decays ? "0.05" : "0";
      OptimizerOptions clipped = rule_options(rule, texts);
      clipped.clip_norm = 100;  // leaves small gradients alone
      EXPECT_NEAR(ours(clipped, 1.5, kGrads, 0.1), decays ? with_decay : without_decay, 1e-14)
          << rule << " " << testing::PrintToString(texts);
    }
}

TEST(Optimizer, ReadsTheRateByAppliedUpdatesAndKeepsTheLast) {
  const Tensor w = require_grad(tensor_of<double>({0}, {1}));
  Optimizer optimizer(sgd_options(), {{"w", w}}, rates({1, 10}));
  DeviceStepState state(Device::cpu);
  std::vector<double> moved;
  for (int step = 0; step < 4; ++step) {
    set_grad(w, tensor_of<double>({-1}, {1}));
    StepState now = state.read();
    now.found_inf = step == 1;
    state.write(now);
    const double before = w.item();
    optimizer.step(state);
    moved.push_back(w.item() - before);
  }
  EXPECT_EQ(moved, (std::vector<double>{1, 0, 10, 10}));
  EXPECT_EQ(state.read().applied, 3);
  EXPECT_EQ(state.read().skipped, 1);
}

TEST(Optimizer, ClipsTheGlobalNormAsPyTorchDoes) {
  for (const bool fused : {false, true}) {
    const Tensor a = require_grad(tensor_of<float>({0, 0}, {2}));
    const Tensor b = require_grad(tensor_of<float>({0}, {1}));
    OptimizerOptions options = sgd_options();
    options.clip_norm = 6.5;
    options.fused = fused;
    Optimizer optimizer(options, {{"a", a}, {"b", b}}, rates({1}));
    DeviceStepState state(Device::cpu);
    StepState scaled = state.read();
    scaled.inverse_scale = 0.5;  // so the gradients are (3, 4, 12), of norm 13
    state.write(scaled);
    set_grad(a, tensor_of<float>({6, 8}, {2}));
    set_grad(b, tensor_of<float>({24}, {1}));
    optimizer.step(state);
    EXPECT_FLOAT_EQ(state.read().grad_norm, 13);
    EXPECT_NEAR(a.data<float>()[0], -1.5, 1e-6);
    EXPECT_NEAR(a.data<float>()[1], -2, 1e-6);
    EXPECT_NEAR(b.data<float>()[0], -6, 1e-6);
  }
}

TEST(Optimizer, RefusesWhatCannotWork) {
  const Tensor w = require_grad(normal({4}, DType::f32, 1));
  EXPECT_THROW(Optimizer(sgd_options(), {}, rates({1})), Error);
  EXPECT_THROW(Optimizer(sgd_options(), {{"w", w.detach()}}, rates({1})), Error);
  EXPECT_THROW(Optimizer(sgd_options({{"nesterov", "true"}}), {{"w", w}}, rates({1})), Error);
  Optimizer optimizer(sgd_options(), {{"w", w}}, rates({1}));
  DeviceStepState state(Device::cpu);
  EXPECT_THROW(optimizer.step(state), Error) << "no gradient anywhere";
}
