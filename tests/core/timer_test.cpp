// Moment: time between two points of a stream of a GPU.
#include "core/device/timer.h"
#include <gtest/gtest.h>
#include "core/tensor/foreach.h"
#include "tests/refusal.h"

using namespace bellows;

TEST(MomentOnDevice, IsPassedAfterTheWorkBeforeIt) {
  if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  const Stream stream = current_stream(Device::cuda);
  const Tensor t({1 << 16}, DType::f32, Device::cuda);
  const Moment begin(stream);
  for (int i = 0; i < 8; ++i) fill(t, i);
  const Moment middle(stream);
  for (int i = 0; i < 8; ++i) fill(t, i);
  const Moment end(stream);
  synchronize(stream);
  EXPECT_GT(middle.ms_since(begin), 0);
  EXPECT_GT(end.ms_since(middle), 0);
  EXPECT_NEAR(end.ms_since(begin), middle.ms_since(begin) + end.ms_since(middle), 1e-3);
  EXPECT_EQ(refused([&] { end.ms_since(Moment{current_stream(Device::cpu)}); }).exit, Exit::usage);
}
