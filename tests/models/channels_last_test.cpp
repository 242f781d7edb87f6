// A model in NHWC transposes nothing. Toggles' tests compare its losses with those in NCHW.
#include <gtest/gtest.h>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/rng.h"
#include "models/losses/loss.h"
#include "ops/conv/conv2d.h"
#include "optim/optimizer.h"
#include "tests/models/build.h"
#include "tests/moved.h"

using namespace bellows;

namespace {

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

// Counts in whole updates with oneDNN, after the first.
TEST(ChannelsLast, TransposesNothingInASteadyStep) {
  if (!kernels::conv2d.has_vendor(Device::cpu)) GTEST_SKIP() << "built without oneDNN";
  const Kernels use({.vendor = true});
  for (const MemoryFormat& format : {kNCHW, kNHWC})
    for (const DType low : {DType::f32, DType::bf16}) {
      if (low == DType::bf16 && !__builtin_cpu_supports("avx512bf16")) continue;
      const ModulePtr model = resnet(format);
      DeviceStepState state(Device::cpu);
      Optimizer optimizer({.fused = true}, model->parameters(), full({1}, 0.1, DType::f64));
      const Tensor x = images(format);
      int64_t moved = 0, counted = 0;
      for (int step = 0; step < 3; ++step) {
        const Moved transposes("layout.transposes"), ops("layout.nhwc_ops");
        backward(loss_of(*model, x, low));
        optimizer.step(state);
        optimizer.zero_grad();
        moved = transposes;
        counted = ops;
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
