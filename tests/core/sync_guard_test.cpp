// SyncGuard reports each source line on which the host waits for a device, once.
#include "core/device/sync_guard.h"
#include <gmock/gmock.h>
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SyncGuardOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
    one_ = to(Device::cuda, full({1}, 1, DType::f32));
    take_sync_reports();
  }
  // The host waits on each of these lines.
  void item() const { one_.item(); }
  void copy() const { to(Device::cpu, one_); }
  void wait() const { synchronize(current_stream(Device::cuda)); }
  Tensor one_;
};
static constexpr const char* kHere =
    "the host waits for the device at tests/core/sync_guard_test.cpp:";

TEST_F(SyncGuardOnDevice, WarnsOnceOfEachLine) {
  static trace::Counter& found = trace::counter("sync.guarded");
  const int64_t before = found.value();
  const SyncGuard guard(OnSync::warn);
  for (int i = 0; i < 2; ++i) item(), copy(), wait();
  EXPECT_EQ(found.value() - before, 6);
  const auto reports = take_sync_reports();
  EXPECT_THAT(reports, ElementsAre(HasSubstr(kHere), HasSubstr(kHere), HasSubstr(kHere)));
  item(), copy(), wait();
  EXPECT_THAT(take_sync_reports(), IsEmpty());
}

TEST_F(SyncGuardOnDevice, RefusesWithTheLine) {
  const SyncGuard guard(OnSync::refuse);
  EXPECT_THAT(refusal([&] { item(); }), HasSubstr(kHere));
  EXPECT_THAT(refusal([&] { copy(); }), HasSubstr(kHere));
  EXPECT_THAT(refusal([&] { wait(); }), HasSubstr(kHere));
}
