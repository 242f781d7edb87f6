// Checks every CUDA kernel of autograd/ against its CPU implementation.
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/on_device.h"
#include "tests/twins.h"

using namespace bellows;

class AutogradOnDevice : public OnDevice<> {
 protected:
  static void SetUpTestSuite() { runs.emplace(); }
  static void TearDownTestSuite() {
    if (device_count(Device::cuda) == 0) return;
    EXPECT_EQ(without_twin(*runs, "autograd"), "");
  }
  static inline std::optional<RunCount> runs;
};

TEST_F(AutogradOnDevice, FindsANonFiniteElementAnywhere) {
  for (const double bad : {0.0, double(NAN), double(INFINITY), -double(INFINITY)})
    for (const int64_t at : {0, 255, 1000}) {
      const Tensor x = full({1001}, 1);
      x.data<float>()[at] = float(bad);
      EXPECT_EQ(all_finite(x), bad == 0);
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
        EXPECT_EQ(all_finite(to(Device::cuda, cast(x, dtype))), bad == 0) << dtype << ' ' << at;
    }
}

TEST_F(AutogradOnDevice, ScalesAndMovesTheLossScaleAsTheCpuDoes) {
  const GradScalerOptions options{.growth_interval = 2};
  DeviceStepState host(Device::cpu), device(Device::cuda);
  const GradScaler on_host(true, options, host), on_device(true, options, device);
  for (const int found : {0, 0, 1, 0, 1, 0, 0, 0}) {
    for (DeviceStepState* state : {&host, &device}) {
      StepState now = state->read();
      now.found_inf = found;
      state->write(now);
    }
    on_host.update();
    on_device.update();
    EXPECT_EQ(device.read().loss_scale, host.read().loss_scale);
    EXPECT_EQ(device.read().inverse_scale, host.read().inverse_scale);
    EXPECT_EQ(device.read().good_updates, host.read().good_updates);
    for (const DType dtype : {DType::f32, DType::f64})
      for (const double seed : {1.0, 0.25}) {
        const Tensor w = require_grad(full({}, 1, dtype, Device::cuda));
        backward(w, {.seed = seed, .loss_scale = device.loss_scale()});
        EXPECT_EQ(grad(w).item(), seed * host.read().loss_scale);
      }
  }
}
