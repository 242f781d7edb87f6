// Collectives of tensors on a GPU: by NCCL, and by Gloo on the host.
#include "autograd/backward.h"
#include "dist/reducer.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/cuda_host/dist/gpu_ranks.h"
#include "tests/moved.h"
#include "tests/optim/trained.h"

using namespace bellows;

namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64};

class CollectivesOnDevice : public RanksOnDevice,
                            public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, CollectivesOnDevice, testing::Values("nccl", "gloo"));

}  // namespace

// Gloo copies them to the host and back.
TEST_P(CollectivesOnDevice, ComputeEveryDType) {
  const Moved copied("dist.staged_bytes");
  GpuRanks(GetParam(), 3).run([](ProcessGroup& group) {
    const int rank = group.rank();
    for (const DType dtype : kDTypes) {
      const Tensor sum = on_gpu(101, rank + 1, dtype), root = on_gpu(7, rank, dtype),
                   mine = on_gpu(5, rank, dtype), all = on_gpu(15, -1, dtype);
      group.all_reduce(sum, Reduction::sum, "sum").wait();
      group.broadcast(root, 2, "root").wait();
      group.all_gather(mine, all, "gather").wait();
      EXPECT_EQ(at(sum, 100), 6) << dtype;
      EXPECT_EQ(at(root, 6), 2) << dtype;
      EXPECT_EQ(at(all, 4), 0) << dtype;
      EXPECT_EQ(at(all, 14), 2) << dtype;
      if (dtype == DType::i64) continue;
      const Tensor mean = on_gpu(33, 2 * rank, dtype);
      group.all_reduce(mean, Reduction::mean, "mean").wait();
      EXPECT_EQ(at(mean, 32), 2) << dtype;
    }
    group.barrier("end");
  });
  EXPECT_EQ(copied > 0, GetParam() == std::string("gloo"));
}

// Each schedule runs the operations of streams, between which there is no event, in another order.
TEST_P(CollectivesOnDevice, FollowTheWorkSoFarAndPrecedeLaterWork) {
  for (const cuda_host::Schedule& schedule : cuda_host::schedules(2)) {
    cuda_host::use(schedule);
    GpuRanks(GetParam()).run([](ProcessGroup& group) {
      const Tensor a = on_gpu(50, 1), b = on_gpu(60, 2);
      fill(a, group.rank());
      const Work first = group.all_reduce(a, Reduction::sum, "a");
      fill(b, 10 + group.rank());
      const Work second = group.all_reduce(b, Reduction::mean, "b");
      first.wait();
      add_into(a, a, 2);
      second.wait();
      add_into(b, b);
      EXPECT_EQ(at(a, 49), 3);
      EXPECT_EQ(at(b, 59), 21);
    });
  }
}

TEST_P(CollectivesOnDevice, AverageGradientsOfAReducer) {
  const Tensor parameters[] = {normal({30}, DType::f32, 1), normal({20}, DType::f32, 2)};
  for (const bool views : {false, true})
    GpuRanks(GetParam()).run([&](ProcessGroup& group) {
      DistOptions options;
      options.ddp = options.bucketed = options.overlap = options.rebuild = true;
      options.views = views;
      options.compress = views;
      NamedTensors leaves;
      for (const Tensor& p : parameters)
        leaves.push_back({cat("p", leaves.size()), require_grad(to(Device::cuda, p))});
      Reducer reducer(group, options, leaves, {});
      for (int update = 0; update < 3; ++update) {
        const Tensor x = on_gpu(30, 2 * group.rank() + update), y = on_gpu(20, 4);
        backward(sum(mul(leaves[0].tensor, x)));
        backward(sum(mul(leaves[1].tensor, y)));
        reducer.wait();
        EXPECT_EQ(at(leaf_of(leaves[0].tensor).grad, 29), 1 + update);
        EXPECT_EQ(at(leaf_of(leaves[1].tensor).grad, 0), 4);
        for (const NamedTensor& leaf : leaves) leaf_of(leaf.tensor).grad = {};
      }
    });
}
