// Updates on a GPU: equal to those on the CPU, and fused equal to plain.
#include "autograd/amp.h"
#include "core/base/trace.h"
#include "tests/difference.h"
#include "tests/moved.h"
#include "tests/on_device.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

class OptimizerOnDevice : public OnDevice<> {};

}  // namespace

// Powers and the last bits of the norm may round differently; all other arithmetic is the same. The
// second of three updates is skipped.
TEST_F(OptimizerOnDevice, EqualsTheCpu) {
  int variant = 0;
  for (OptimizerOptions options : every_variant()) {
    SCOPED_TRACE(cat(options.rule.name(), " variant ", variant++));
    options.skip_nonfinite = true;
    const auto trained_on = [&](Device device) {
      return train(options, true, 3, DType::f32, device, [n = 0](const Tensor& g) mutable {
        if (n++ == std::ssize(kOddShapes) + 1) fill(g, NAN);
        return g;
      });
    };
    const Trained cpu = trained_on(Device::cpu), gpu = trained_on(Device::cuda);
    for (size_t i = 0; i < cpu.weights.size(); ++i)
      EXPECT_LE(difference(cpu.weights[i], gpu.weights[i]), 1e-5) << "weight " << i;
    for (size_t i = 0; i < cpu.state.size(); ++i)
      EXPECT_LE(difference(cpu.state[i].tensor, gpu.state[i].tensor), 1e-5) << cpu.state[i].name;
    EXPECT_EQ(gpu.step.applied, 2);
    EXPECT_EQ(gpu.step.skipped, 1);
    EXPECT_NEAR(cpu.step.grad_norm, gpu.step.grad_norm, 1e-5 * cpu.step.grad_norm);
  }
}

TEST_F(OptimizerOnDevice, FusedEqualsPlainBitForBit) {
  int variant = 0;
  for (const OptimizerOptions& options : every_variant()) {
    expect_same_bits(train(options, false, 2, DType::f32, Device::cuda),
                     train(options, true, 2, DType::f32, Device::cuda),
                     cat(options.rule.name(), " variant ", variant++));
  }
}

// The update also writes the 16-bit copies of all weights.
TEST_F(OptimizerOnDevice, IsTwoLaunchesAndNoWait) {
  OptimizerOptions options = sgd_options({{"momentum", "0.9"}, {"weight_decay", "0.01"}});
  options.clip_norm = 1;
  options.fused = true;
  const NamedTensors parameters = odd_parameters(DType::f32, Device::cuda);
  Optimizer optimizer(options, parameters, rates({0.1}));
  DeviceStepState state(Device::cuda);
  const Autocast precision(DType::bf16);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& w = parameters[i].tensor;
    amp::to_low(w);
    set_grad(w, to(Device::cuda, gradient(i, 0, w.shape(), DType::f32)));
  }
  const Moved launches("cuda.launches"), syncs("sync.count"), copies("optim.copies_written");
  optimizer.step(state);
  for (const NamedTensor& p : parameters) amp::to_low(p.tensor);
  EXPECT_EQ(launches, 2);
  EXPECT_EQ(copies, std::ssize(parameters));
  EXPECT_EQ(syncs, 0);
  EXPECT_EQ(state.read().applied, 1);
}

// Gradients of 3 and 4. The group with the 4 is frozen after its first update.
TEST_F(OptimizerOnDevice, LeavesAFrozenGroupOutOfTheNorm) {
  OptimizerOptions options = sgd_options();
  options.clip_norm = 1;
  options.groups = {load(GroupOptions{}, {{"parameters", {"b"}}, {"name", {"sgd"}}})};
  const Tensor a = require_grad(full({1}, 0, DType::f32, Device::cuda)),
               b = require_grad(full({1}, 0, DType::f32, Device::cuda));
  Optimizer optimizer(options, {{"a", a}, {"b", b}}, rates({1}),
                      std::vector<Tensor>{rates({1, 0})});
  DeviceStepState state(Device::cuda);
  for (const float norm : {5.f, 3.f, 3.f}) {
    set_grad(a, full({1}, 3, DType::f32, Device::cuda));
    set_grad(b, full({1}, 4, DType::f32, Device::cuda));
    optimizer.step(state);
    EXPECT_FLOAT_EQ(state.read().grad_norm, norm);
  }
}

// More parameters than a launch takes, and their norm.
TEST_F(OptimizerOnDevice, CountsEachLaunch) {
  const trace::Counter &real = trace::counter("cuda.launches"),
                       &counted = trace::counter("optim.launches");
  for (const std::string& name : Choice<UpdateRule()>::names())
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(cat(name, fused ? " fused" : ""));
      OptimizerOptions options = variants_of(name).back();
      options.fused = fused;
      options.clip_norm = 1;
      NamedTensors parameters;
      for (int i = 0; i < (fused ? 520 : 3); ++i) {
        const Tensor w = normal(i % 2 ? Shape{3, 2} : Shape{2, 3}, DType::f32, i);
        parameters.push_back({cat("w", i), require_grad(to(Device::cuda, w))});
        set_grad(parameters.back().tensor, clone(parameters.back().tensor.detach()));
      }
      Optimizer optimizer(options, parameters, rates({0.1}));
      DeviceStepState state(Device::cuda);
      const int64_t real_before = real.value(), counted_before = counted.value();
      optimizer.step(state);
      EXPECT_EQ(counted.value() - counted_before, real.value() - real_before);
      if (fused) {
        EXPECT_EQ(real.value() - real_before, 2 + 2);
      }
    }
}

TEST_F(OptimizerOnDevice, ReadsGradientsIn16Bits) {
  for (const std::string& name : Choice<UpdateRule()>::names())
    for (const bool fused : {false, true})
      expect_bits_of_casts(variants_of(name).back(), fused, Device::cuda, 2);
}
