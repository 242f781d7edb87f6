// Tests that need a GPU. Elsewhere they are skipped, with the reason.
#pragma once
#include <gtest/gtest.h>
#include "core/device/device.h"

namespace bellows {

template <class Fixture = testing::Test> class OnDevice : public Fixture {
 protected:
  void SetUp() override {
    if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
  }
};

}  // namespace bellows
