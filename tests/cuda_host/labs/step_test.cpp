// A benchmark reports products that fall back to the plain kernel.
#include "labs/bench/step.h"
#include <gtest/gtest.h>
#include "core/config/config.h"
#include "plan/toggle.h"
#include "tests/cuda_host/vendor/vendor.h"

using namespace bellows;
using cuda_host::vendor_library;

static int64_t fallbacks(int64_t batch) {
  const std::string data = cat("data={name: digits, train_size: ", batch, ", batch_size: ", batch);
  const std::vector<std::string> words = {"device=cuda", "toggles.vendor_kernels=on", data + "}"};
  RepeatedStep step(make_config(sources_of("", words)).plan);
  step();
  return trace::value_of(time_steps(step, 2, 0).moved, "kernel.fallbacks");
}

TEST(BenchStepOnDevice, CountsProductsThatRanOnThePlainKernel) {
  EXPECT_EQ(fallbacks(2), 0);
  for (const std::string& name : cuda_host::kPlans) vendor_library.faults[name].build = -1;
  EXPECT_GT(fallbacks(3), 0);
  vendor_library.faults.clear();
}
