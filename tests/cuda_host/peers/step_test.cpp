// A benchmark fails where a product falls back to the plain kernel.
#include "peers/step/step.h"
#include <gtest/gtest.h>
#include "tests/cuda_host/vendor/vendor.h"
#include "tests/refusal.h"

using namespace bellows;
using cuda_host::vendor_library;

static std::string timed(int64_t batch) {
  StepRequest request;
  request.device = "cuda";
  request.batch = batch;
  request.words = {"toggles.vendor_kernels=on"};
  NoiseStep step(config_of(request).plan);
  step();
  return refusal([&] { time_steps(step, 2, 0); });
}

TEST(BenchStepOnDevice, FailsWhereAProductRunsOnThePlainKernel) {
  EXPECT_EQ(timed(2), "no error");
  for (const std::string& name : cuda_host::kPlans) vendor_library.faults[name].build = -1;
  EXPECT_NE(timed(3).find("on the plain kernel"), std::string::npos);
  vendor_library.faults.clear();
}
