// A benchmark fails where a product falls back to the plain kernel.
#include "labs/bench/step.h"
#include <gtest/gtest.h>
#include "core/config/config.h"
#include "plan/toggle.h"
#include "tests/cuda_host/vendor/vendor.h"
#include "tests/refusal.h"

using namespace bellows;
using cuda_host::vendor_library;

static std::string timed(int64_t batch) {
  const std::string data = cat("data={name: digits, train_size: ", batch, ", batch_size: ", batch);
  const std::vector<std::string> words = {"device=cuda", "toggles.vendor_kernels=on", data + "}"};
  RepeatedStep step(make_config(sources_of("", words)).plan);
  step();
  return refusal([&] { time_steps(step, 2, 0); });
}

TEST(BenchStepOnDevice, FailsWhereAProductRunsOnThePlainKernel) {
  EXPECT_EQ(timed(2), "no error");
  for (const std::string& name : cuda_host::kPlans) vendor_library.faults[name].build = -1;
  EXPECT_NE(timed(3).find("on the plain kernel"), std::string::npos);
  vendor_library.faults.clear();
}
