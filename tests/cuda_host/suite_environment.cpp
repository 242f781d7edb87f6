// Runs a suite of the product on cuda_host: CUDA_HOST_SCHEDULE names the schedule
// (tests/cuda_host/schedule.h), and each test fails if the device has a complaint.
#include <gtest/gtest.h>
#include <cstdlib>
#include "tests/cuda_host/cuda_host.h"

namespace {

cuda_host::Schedule schedule_from_environment() {
  const char* const name = std::getenv("CUDA_HOST_SCHEDULE");
  if (!name) return {};
  for (const cuda_host::Schedule& schedule : cuda_host::schedules(8))
    if (schedule.name == name) return schedule;
  std::fprintf(stderr, "CUDA_HOST_SCHEDULE='%s': not in tests/cuda_host/schedule.h\n", name);
  std::exit(2);
}

class AskAfterEachTest : public testing::EmptyTestEventListener {
  // Restarts the schedule, so that a test runs alone as it does among others.
  void OnTestStart(const testing::TestInfo&) override { cuda_host::use(schedule_); }
  void OnTestEnd(const testing::TestInfo&) override { EXPECT_EQ(cuda_host::settle(), ""); }
  const cuda_host::Schedule schedule_ = schedule_from_environment();
};

class Device : public testing::Environment {
  void SetUp() override {
    testing::UnitTest::GetInstance()->listeners().Append(new AskAfterEachTest);
  }
};
testing::Environment* const device = testing::AddGlobalTestEnvironment(new Device);

}  // namespace
