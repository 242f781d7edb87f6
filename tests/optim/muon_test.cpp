// Muon with several weights in one rule, and with weights in any memory order.
#include "optim/muon.h"
#include <gtest/gtest.h>
#include <cmath>
#include "core/base/trace.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

// Weights 0 and 3, and 1 and 4, share their products.
const std::vector<Shape> kShapes{{3, 5}, {6, 2}, {4, 3, 2, 2}, {3, 5}, {6, 2}, {5, 3}};

// Normal weights after three updates with normal gradients. The values of weight i depend on i
// only.
std::vector<Tensor> moved(const std::vector<size_t>& which, bool fused,
                          const MemoryFormat& format = kNCHW) {
  OptimizerOptions options;
  options.fused = fused;
  options.rule.choose("muon");
  options.rule.as<MuonOptions>() = {.momentum = 0.6, .normalize_weights = true};
  NamedTensors parameters;
  for (const size_t i : which) {
    const Tensor w = contiguous(normal(kShapes[i], DType::f64, i), format);
    parameters.push_back({"w" + std::to_string(i), require_grad(w)});
  }
  Optimizer optimizer(options, parameters, rates({0.1}));
  DeviceStepState state(Device::cpu);
  for (int step = 0; step < 3; ++step) {
    for (size_t k = 0; k < which.size(); ++k)
      set_grad(parameters[k].tensor, normal(kShapes[which[k]], DType::f64, 10 * step + which[k]));
    optimizer.step(state);
  }
  std::vector<Tensor> weights;
  for (const NamedTensor& p : parameters) weights.push_back(contiguous(p.tensor.detach()));
  return weights;
}

}  // namespace

TEST(Muon, MovesEachWeightAsIfItWereAlone) {
  for (const bool fused : {false, true}) {
    const std::vector<Tensor> together = moved({0, 1, 2, 3, 4, 5}, fused);
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

// Three elementwise kernels, and 3 products for each step and shape.
TEST(Muon, SharesProductsAmongWeightsOfEqualShape) {
  const trace::Counter& launches = trace::counter("optim.fused_launches");
  const auto launched = [&](const std::vector<size_t>& which) {
    const int64_t before = launches.value();
    moved(which, true);
    return (launches.value() - before) / 3;  // updates
  };
  EXPECT_EQ(launched({0}), 3 + 3 * 5);
  EXPECT_EQ(launched({0, 3}), 3 + 3 * 5);
  EXPECT_EQ(launched({0, 1, 2, 3, 4}), 3 + 3 * 3 * 5);
  EXPECT_EQ(launched({0, 5}), 3 + 2 * 3 * 5) << "the transpose of a shape is another one";
}

// Each product and X are rounded to 8 bits of mantissa. The direction of an update moves by less
// than 3 % of its norm, while the method leaves singular values between 0.7 and 1.2.
TEST(Muon, InBf16MovesWeightsAlmostAsInF32) {
  for (const Shape& shape : {Shape{24, 40}, Shape{40, 24}, Shape{16, 4, 3, 3}}) {
    const auto step = [&](MuonOptions::NsDType dtype) {
      OptimizerOptions options;
      options.fused = true;
      options.rule.choose("muon");
      options.rule.as<MuonOptions>() = {.ns_steps = 3, .ns_dtype = dtype};
      const Tensor w = require_grad(zeros(shape, DType::f32));
      Optimizer optimizer(options, {{"w", w}}, rates({1}));
      DeviceStepState state(Device::cpu);
      set_grad(w, normal(shape, DType::f32, 4));
      optimizer.step(state);
      return w.detach();
    };
    const Tensor want = step(MuonOptions::f32), got = step(MuonOptions::bf16);
    double norm = 0, error = 0;
    for (int64_t i = 0; i < want.numel(); ++i) {
      norm += std::pow(want.ptr<float>()[i], 2);
      error += std::pow(want.ptr<float>()[i] - got.ptr<float>()[i], 2);
    }
    EXPECT_LT(std::sqrt(error / norm), 0.03) << shape;
    EXPECT_GT(std::sqrt(error / norm), 1e-4) << shape << ": not in bf16";
  }
}
