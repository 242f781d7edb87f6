// The lesson ops beyond the generic suite: ties, NaN, 16 bits, and indices out of range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/bucketize.h"
#include "ops/gather.h"
#include "ops/reduce.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

TEST(Bucketize, TiesGoDownAndNaNToTheLastBucket) {
  const Tensor edges = tensor_of<float>({0, 1, 1, 2}, {4});
  const Tensor x = tensor_of<float>({-1, 0, 0.5, 1, 1.5, 2, 3, NAN, INFINITY, -INFINITY}, {10});
  EXPECT_THAT(bucketize(x, edges).data<int64_t>(), ElementsAre(0, 0, 1, 1, 3, 3, 4, 4, 4, 0));
}

TEST(Bucketize, RefusesBoundariesOutOfOrder) {
  const Tensor edges = tensor_of<float>({1, 0}, {2});
  EXPECT_EQ(refusal([&] { bucketize(full({2}, 1), edges); }),
            "bucketize: the 2 boundaries are not in ascending order");
}

// Under amp, the layer before may give 16 bits. Neither bf16 nor f16 holds every index.
TEST(Bucketize, CountsExactlyInSixteenBits) {
  Tensor edges({5000}, DType::f32);
  for (int i = 0; i < 5000; ++i) edges.data<float>()[i] = float(i) - 0.5f;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = cast(tensor_of<float>({-1, 3, 300, 4096}, {4}), dtype);
    EXPECT_THAT(bucketize(x, edges).data<int64_t>(), ElementsAre(0, 4, 301, 4097)) << dtype;
  }
}

TEST(Gather, PicksByLine) {
  const Tensor x = tensor_of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor index = tensor_of<int64_t>({2, 0, 1, 1}, {2, 2});
  EXPECT_THAT(gather(x, 1, index).data<float>(), ElementsAre(3, 1, 5, 5));
  EXPECT_THAT(gather(x, 0, tensor_of<int64_t>({1, 0, 1}, {1, 3})).data<float>(),
              ElementsAre(4, 2, 6));
}

// In bf16 alone a sum of ones stops at 256.
TEST(Gather, AddsUpItsGradientInF32) {
  const Tensor x = require_grad(full({2, 1}, 3, DType::bf16));
  backward(sum(gather(x, 0, full({260, 1}, 0, DType::i64))));
  EXPECT_THAT(cast(grad(x), DType::f32).data<float>(), ElementsAre(260, 0));
}

TEST(Gather, RefusesAnIndexOutsideOfItsAxis) {
  for (const int64_t index : {-1, 3}) {
    const Tensor at = tensor_of<int64_t>({0, index}, {2});
    EXPECT_EQ(refusal([&] { gather(full({3}, 1), 0, at); }),
              cat("gather: index ", index, " is not in [0, 3)"));
  }
}

TEST(Meshgrid, EveryGridVariesAlongItsOwnAxis) {
  const std::vector<Tensor> axes{tensor_of<float>({1, 2}, {2}), tensor_of<float>({5, 6, 7}, {3})};
  const auto grids = meshgrid(axes);
  EXPECT_THAT(contiguous(grids[0]).data<float>(), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(contiguous(grids[1]).data<float>(), ElementsAre(5, 6, 7, 5, 6, 7));
}
