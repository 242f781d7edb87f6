// NCCL's process group in a world of one: on a GPU the library's, without one a stand-in's
// (tests/cuda_host/vendor/nccl.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/base/trace.h"
#include "core/device/allocator.h"
#include "core/device/graph.h"
#include "tests/dist/nccl_alone.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::HasSubstr;

namespace {

// With caching, because allocations would wait for the device.
class NcclAloneOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count(Device::cuda) == 0) GTEST_SKIP() << why_no_device(Device::cuda);
    configure_allocator(Device::cuda, {.caching = true});
    const std::string missing = refusal([] { NcclAlone(); });
    if (missing.find("lacks it") + 1 || missing.find("not installed") + 1) GTEST_SKIP() << missing;
  }
  void TearDown() override {
    if (device_count(Device::cuda) == 0) return;
    synchronize(stream_of(Device::cuda));
    configure_allocator(Device::cuda, {.caching = false});
  }
};

}  // namespace

TEST(Nccl, NeedsAGpu) {
  EXPECT_THAT(refusal([] { Choice<MakeGroup>("nccl").make({}); }),
              HasSubstr("dist.backend: nccl, but the device is cpu; write  dist.backend: auto"));
}

TEST_F(NcclAloneOnDevice, TakesEveryDType) {
  const NcclAlone alone;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64}) {
    const Tensor t = on_gpu(100, 3, dtype), all = on_gpu(100, 0, dtype);
    alone.group->all_reduce(t, Reduction::sum, "sum").wait();
    alone.group->all_gather(t, all, "gather").wait();
    EXPECT_EQ(at(all, 99), 3) << dtype;
    alone.group->broadcast(t, 0, "broadcast").wait();
    EXPECT_EQ(at(t, 99), 3) << dtype;
  }
}

TEST_F(NcclAloneOnDevice, NeverMakesTheHostWait) {
  const NcclAlone alone;
  const Tensor t = on_gpu(100, 1);
  const int64_t before = trace::counter("sync.count").value();
  for (int i = 0; i < 3; ++i) alone.group->all_reduce(t, Reduction::mean, "t").wait();
  EXPECT_EQ(trace::counter("sync.count").value(), before);
  EXPECT_EQ(at(t, 99), 1);
}

// Both collectives overlap with work of the compute stream.
TEST_F(NcclAloneOnDevice, ACapturedUpdateReplaysWithItsCollectives) {
  const NcclAlone alone;
  const Tensor x = on_gpu(64, 1), a = on_gpu(64, 0), b = on_gpu(64, 0);
  const auto update = [&] {  // x = 20 x
    copy_into(a, x);
    add_into(a, a);
    const Work first = alone.group->all_reduce(a, Reduction::mean, "a");
    copy_into(b, x);
    const Work second = alone.group->all_reduce(b, Reduction::mean, "b");
    first.wait();
    second.wait();
    add_into(a, a, 9);
    copy_into(x, a);
  };
  update();
  const Graph graph(Device::cuda, update);
  for (const double expected : {400, 8000}) {
    graph.launch();
    alone.group->graph_launched();
    EXPECT_EQ(at(x, 63), expected);
  }
  EXPECT_THAT(alone.group->flight_report(), HasSubstr("graph: captured update"));
}
