// Compares a small GPT with PyTorch: the losses of 100 updates from equal weights.
// tests/oracle/make_fixtures.py wrote the fixture; PyTorch is not needed here.
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "models/losses/loss.h"
#include "optim/optimizer.h"
#include "tests/models/build.h"

using namespace bellows;

static const NamedTensors& expected() {
  static const NamedTensors tensors = fixture("gpt");
  return tensors;
}

static Tensor of_update(const char* name, int64_t i) {
  const Tensor all = find(expected(), name);
  return all.view({4, 12}, {12, 1}, all.offset() + i * 48);
}

// Returns the largest difference between a loss and PyTorch's, over 100 updates.
static double worst_difference(bool fused, bool vendor) {
  const Kernels use({.vendor = vendor});
  const ModulePtr model = build({{"name", "gpt"}, {"width", "16"}},
                                {.sample = {12}, .classes = 13, .output = Shape{12, 13}});
  const NamedTensors parameters = model->parameters();
  EXPECT_EQ(parameters.size() + 3, expected().size());
  for (const NamedTensor& p : parameters) copy_into(p.tensor, find(expected(), p.name));
  Values values{{"name", {"adamw", "test"}}, {"weight_decay", {"0.01", "test"}}};
  OptimizerOptions options = load(OptimizerOptions{}, values);
  options.fused = options.set_to_none = fused;
  Optimizer optimizer(options, parameters, full({1}, 3e-3, DType::f64));
  DeviceStepState state(Device::cpu);
  double worst = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const Tensor loss = criterion((*model)(of_update("x", i)), of_update("y", i), {.fused = fused});
    backward(loss);
    optimizer.step(state);
    optimizer.zero_grad();
    worst = std::max(worst, std::abs(loss.item() - find(expected(), "losses").ptr<float>()[i]));
  }
  return worst;
}

TEST(GptOracle, HasTheLossesOfPyTorchOver100Updates) {
  EXPECT_LT(worst_difference(false, false), 2e-5) << "plain";
  EXPECT_LT(worst_difference(true, true), 2e-5) << "fused";
}
