// The same model in NCHW and in NHWC: equal initial values, equal gradients, and no transposes in
// the latter.
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "models/losses/loss.h"
#include "ops/conv/conv2d.h"
#include "optim/optimizer.h"
#include "tests/difference.h"
#include "tests/models/build.h"

using namespace bellows;

namespace {

constexpr MemoryFormat kFormats[] = {kNCHW, kNHWC};

ModulePtr resnet(const MemoryFormat& format) {
  return build({{"name", "resnet18"},
                {"width", "8"},
                {"fuse.bn_act", "true"},
                {"fuse.bn_add_act", "true"},
                {"channels_last", format == kNHWC ? "true" : "false"}},
               {.sample = {3, 16, 16}});
}
Tensor images(const MemoryFormat& format) {
  const Tensor x({4, 3, 16, 16}, DType::f32);
  fill_normal(x, 0, 1, {.seed = 3, .purpose = Purpose::test});
  return contiguous(x, format);
}
Tensor loss_of(Module& model, const Tensor& x, DType low = DType::f32) {
  const Autocast precision(low);
  return criterion(model(x), tensor_of<int64_t>({1, 2, 3, 4}, {4}), {.fused = true});
}

}  // namespace

TEST(ChannelsLast, StartsFromTheSameNumbersInAnotherOrder) {
  const ModulePtr nchw = resnet(kNCHW), nhwc = resnet(kNHWC);
  const NamedTensors a = nchw->parameters(), b = nhwc->parameters();
  ASSERT_EQ(a.size(), b.size());
  int convolutions = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(difference(a[i].tensor, b[i].tensor), 0) << a[i].name;
    if (b[i].tensor.rank() != 4) continue;
    ++convolutions;
    EXPECT_EQ(b[i].tensor.strides(), strides_of(b[i].tensor.shape(), kNHWC)) << b[i].name;
  }
  EXPECT_EQ(convolutions, 20);
}

TEST(ChannelsLast, GivesTheSameGradientsInTheOrderOfTheWeights) {
  for (const bool vendor : {false, true}) {
    const Kernels use({.vendor = vendor});
    NamedTensors gradients[2];
    double losses[2];
    for (const int i : {0, 1}) {
      const ModulePtr model = resnet(kFormats[i]);
      const Tensor loss = loss_of(*model, images(kFormats[i]));
      losses[i] = loss.item();
      backward(loss);
      for (const NamedTensor& p : model->parameters()) {
        gradients[i].push_back({p.name, grad(p.tensor)});
        EXPECT_EQ(grad(p.tensor).strides(), p.tensor.strides()) << p.name;
      }
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-5);
    for (size_t i = 0; i < gradients[0].size(); ++i)
      EXPECT_LT(difference(gradients[0][i].tensor, gradients[1][i].tensor, 1e-6), 2e-4)
          << gradients[0][i].name << (vendor ? " vendor" : "");
  }
}

// Counts in whole updates with oneDNN, after the first.
TEST(ChannelsLast, TransposesNothingInASteadyStep) {
  if (!kernels::conv2d.has_vendor(Device::cpu)) GTEST_SKIP() << "built without oneDNN";
  const Kernels use({.vendor = true});
  const trace::Counter &transposes = trace::counter("layout.transposes"),
                       &ops = trace::counter("layout.nhwc_ops");
  for (const MemoryFormat& format : kFormats)
    for (const DType low : {DType::f32, DType::bf16}) {
      if (low == DType::bf16 && !__builtin_cpu_supports("avx512bf16")) continue;
      const ModulePtr model = resnet(format);
      DeviceStepState state(Device::cpu);
      Optimizer optimizer({.fused = true}, model->parameters(), full({1}, 0.1, DType::f64));
      const Tensor x = images(format);
      int64_t moved = 0, counted = 0;
      for (int step = 0; step < 3; ++step) {
        const int64_t before = transposes.value(), ops_before = ops.value();
        backward(loss_of(*model, x, low));
        optimizer.step(state);
        optimizer.zero_grad();
        moved = transposes.value() - before;
        counted = ops.value() - ops_before;
      }
      if (format == kNHWC) {
        EXPECT_EQ(moved, 0) << low;
        EXPECT_EQ(counted, 20 + 20 + 1) << "convolutions, norms and the pool, " << low;
      } else {
        EXPECT_GT(moved, 0) << low;
        EXPECT_EQ(counted, 0) << low;
      }
    }
}
