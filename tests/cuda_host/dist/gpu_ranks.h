// Ranks that are threads and share the stand-in device, each with a compute stream of its own.
#pragma once
#include <gtest/gtest.h>
#include "core/device/allocator.h"
#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/own_stream.h"
#include "tests/dist/nccl_alone.h"
#include "tests/dist/rank_threads.h"

namespace bellows {

// A block that goes back to the system waits for the whole device, so also for other ranks.
class RanksOnDevice : public testing::Test {
 protected:
  void SetUp() override { configure_allocator(Device::cuda, {.caching = true}); }
  void TearDown() override {
    synchronize(stream_of(Device::cuda));
    configure_allocator(Device::cuda, {.caching = false});
  }
};

struct GpuRanks : RankThreads {
  explicit GpuRanks(const std::string& name, int ranks = 2) {
    backend = name;
    world = ranks;
    device = Device::cuda;
    options.timeout_s = 20;
  }
  // Calls body(group) for each rank, and expects no error.
  template <class Body> void run(const Body& body) const {
    expect_no_errors(RankThreads::run([&](ProcessGroup& group) {
      const cuda_host::OwnStream stream;
      const StreamGuard on(stream);
      body(group);
      synchronize(stream);
    }));
  }
};

}  // namespace bellows
