// Muon with several weights in one rule, and with weights in any memory order.
#include "optim/muon.h"
#include <gtest/gtest.h>
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

// Normal weights after three updates with normal gradients. The values of weight i depend on i
// only.
std::vector<Tensor> moved(const std::vector<size_t>& which, bool fused,
                          const MemoryFormat& format = kNCHW) {
  const std::vector<Shape> shapes{{3, 5}, {6, 2}, {4, 3, 2, 2}};
  OptimizerOptions options;
  options.fused = fused;
  options.rule.choose("muon");
  options.rule.as<MuonOptions>() = {.momentum = 0.6, .normalize_weights = true};
  NamedTensors parameters;
  for (const size_t i : which) {
    const Tensor w = contiguous(normal(shapes[i], DType::f64, i), format);
    parameters.push_back({"w" + std::to_string(i), require_grad(w)});
  }
  Optimizer optimizer(options, parameters, rates({0.1}));
  DeviceStepState state(Device::cpu);
  for (int step = 0; step < 3; ++step) {
    for (size_t k = 0; k < which.size(); ++k)
      set_grad(parameters[k].tensor, normal(shapes[which[k]], DType::f64, 10 * step + which[k]));
    optimizer.step(state);
  }
  std::vector<Tensor> weights;
  for (const NamedTensor& p : parameters) weights.push_back(contiguous(p.tensor.detach()));
  return weights;
}

}  // namespace

TEST(Muon, MovesEachWeightAsIfItWereAlone) {
  for (const bool fused : {false, true}) {
    const std::vector<Tensor> together = moved({0, 1, 2}, fused);
    for (size_t i = 0; i < together.size(); ++i)
      EXPECT_TRUE(same_bits(together[i], moved({i}, fused)[0])) << i << (fused ? " fused" : "");
  }
}

// In NHWC the columns of its matrix are permuted, which does not matter to the orthogonalization.
TEST(Muon, TakesAConvolutionInAnyMemoryOrder) {
  const Tensor nchw = moved({2}, true)[0], nhwc = moved({2}, true, kNHWC)[0];
  for (int64_t i = 0; i < nchw.numel(); ++i)
    EXPECT_NEAR(nhwc.data<double>()[i], nchw.data<double>()[i], 1e-6) << i;
}
