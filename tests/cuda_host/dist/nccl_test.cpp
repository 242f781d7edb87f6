// NCCL's process group on a stand-in library that records its calls, fails and hangs.
#include "tests/cuda_host/vendor/nccl.h"
#include <gmock/gmock.h>
#include "core/config/values.h"
#include "core/device/graph.h"
#include "tests/cuda_host/dist/gpu_ranks.h"
#include "tests/cuda_host/operations.h"
#include "tests/dist/nccl_alone.h"

using namespace bellows;
using cuda_host::nccl_library;
using cuda_host::NcclCall;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

class NcclOnDevice : public RanksOnDevice {
 protected:
  void SetUp() override {
    RanksOnDevice::SetUp();
    nccl_library.calls.clear();
    nccl_library.aborted = 0;
  }
};

std::vector<std::string> texts(const std::vector<NcclCall>& calls) {
  std::vector<std::string> all;
  for (const NcclCall& call : calls) all.push_back(call.text);
  return all;
}

}  // namespace

TEST_F(NcclOnDevice, CallsInOrderOnAStreamOfItsOwn) {
  {
    const NcclAlone alone;
    const Tensor t = on_gpu(100, 1), half = on_gpu(40, 1, DType::bf16);
    alone.group->all_reduce(t, Reduction::mean, "a").wait();
    alone.group->all_reduce(half, Reduction::sum, "b").wait();
    alone.group->broadcast(t, 0, "c").wait();
  }
  const std::vector<NcclCall>& calls = nccl_library.calls;
  EXPECT_THAT(texts(calls),
              ElementsAre("ncclCommInitRankConfig", "ncclAllReduce of 1 f32, sum",
                          "ncclAllReduce of 100 f32, avg", "ncclAllReduce of 40 bf16, sum",
                          "ncclBroadcast of 100 f32 from 0", "ncclCommDestroy"));
  for (const NcclCall& call : calls) EXPECT_NE(call.stream, stream_of(Device::cuda).native);
}

TEST_F(NcclOnDevice, PassesItsLimitOfBlocks) {
  Choice<MakeGroup> nccl("nccl");
  const Values eight = {{"max_ctas", {"8"}}};
  Load load(eight);
  nccl.visit_options(load);
  GroupContext context;
  context.device = Device::cuda;
  const auto group = nccl.make(context);
  EXPECT_EQ(nccl_library.calls.at(0).text, "ncclCommInitRankConfig, max_ctas 8");
}

// ---- graphs

TEST_F(NcclOnDevice, AGraphThatHangsIsAborted) {
  const NcclAlone alone(2);
  const Tensor x = on_gpu(64, 1);
  const Graph graph(Device::cuda, [&] { alone.group->all_reduce(x, Reduction::mean, "a").wait(); });
  cuda_host::hang(static_cast<cudaStream_t>(stream_of(Device::cuda).native));
  graph.launch();
  alone.group->graph_launched();
  synchronize(stream_of(Device::cuda));  // the abort ends it
  EXPECT_EQ(nccl_library.aborted, 1);
  EXPECT_EQ(refusal([&] { alone.group->graph_launched(); }),
            "nccl: step 12, captured update: not done within 2 s; raise dist.timeout_s");
}

// ---- failures

TEST_F(NcclOnDevice, AbortsACollectiveThatTakesTooLong) {
  const NcclAlone alone(2);
  const Tensor t = on_gpu(100, 1);
  nccl_library.breaks = true;
  alone.group->all_reduce(t, Reduction::mean, "bucket 3").wait();
  synchronize(stream_of(Device::cuda));
  const Refusal error =
      refused([&] { alone.group->all_reduce(t, Reduction::mean, "bucket 4").wait(); });
  EXPECT_EQ(error.message, "nccl: step 12, bucket 3: not done within 2 s; raise dist.timeout_s");
  EXPECT_EQ(error.exit, Exit::distributed);
  EXPECT_EQ(nccl_library.aborted, 1);
  EXPECT_THAT(alone.group->flight_report(),
              AllOf(HasSubstr("collective 2, step 12: all_reduce (mean) of 100 f32: bucket 3"),
                    HasSubstr("not done")));
}

TEST_F(NcclOnDevice, NamesTheCollectiveOfAnAsynchronousError) {
  const NcclAlone alone;
  const Tensor t = on_gpu(100, 1);
  nccl_library.breaks = true;
  nccl_library.error = ncclRemoteError;
  const Refusal error = refused([&] {
    alone.group->all_reduce(t, Reduction::mean, "bucket 3").wait();
    alone.group->barrier("end");
  });
  EXPECT_EQ(error.message,
            "nccl: step 12, bucket 3: remote process exited or there was a network error");
  EXPECT_EQ(error.exit, Exit::distributed);
  EXPECT_EQ(nccl_library.aborted, 1);
  synchronize(stream_of(Device::cuda));
}

TEST_F(NcclOnDevice, WaitsForAConnectionNoLongerThanTheTimeout) {
  nccl_library.never_connects = true;
  const Refusal error = refused([] { NcclAlone(0.1); });
  EXPECT_THAT(error.message, StartsWith("nccl: the ranks did not connect: not done within 100 ms"));
  EXPECT_EQ(error.exit, Exit::distributed);
  EXPECT_EQ(nccl_library.aborted, 1);
}
