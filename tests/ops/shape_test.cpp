// Shape ops beyond the generic suite: copies and refusals.
#include "ops/shape.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/refusal.h"

using namespace bellows;

static Tensor counted(const Shape& shape) {
  const Tensor t(shape, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}

TEST(Reshape, IsAViewWhereStridesCanExpressIt) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(reshape(x, {4, -1}).storage(), x.storage());
  EXPECT_EQ(reshape(slice(x, 2, 0, 2), {6, 2}).storage(), x.storage());
  EXPECT_NE(reshape(slice(x, 2, 0, 2), {12}).storage(), x.storage());
  EXPECT_NE(reshape(permute(x, {2, 1, 0}), {24}).storage(), x.storage());
}

TEST(Reshape, AViewWithGapsShowsTheSameElements) {
  const Tensor x = slice(counted({4, 3, 8}), 2, 2, 6);  // runs of 12 rows and of 4 elements
  for (const Shape& shape : {Shape{2, 6, 2, 2}, Shape{12, 4}, Shape{3, 1, 4, 4}}) {
    const Tensor y = reshape(x, shape), got = contiguous(y), want = contiguous(x);
    EXPECT_EQ(y.storage(), x.storage()) << shape;
    EXPECT_TRUE(std::ranges::equal(got.data<float>(), want.data<float>())) << shape;
  }
}

TEST(Reshape, InfersOneSizeAndRefusesWhatDoesNotFill) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(reshape(x, {3, -1, 2}).shape(), (Shape{3, 4, 2}));
  for (const Shape& shape :
       {Shape{5, -1}, Shape{-1, -1}, Shape{25}, Shape{-2, -12}, Shape{-1, -2, -3}})
    EXPECT_EQ(refusal([&] { reshape(x, shape); }),
              cat("reshape: x [2,3,4] has 24 elements, which do not fill ", shape));
  for (const Shape& shape : {Shape{-1, -1}, Shape{-1, -2, -3}, Shape{0, -2}})
    EXPECT_THAT(refusal([&] {
                  reshape(counted({0, 3}), shape);
                }),
                testing::HasSubstr("do not fill"));
}

// The batch is innermost in CHWN, so (C, H, W) is one run and linear layers read it without a copy.
TEST(Flatten, OfBatchInnermostImagesIsATransposedView) {
  const Tensor x = contiguous(counted({2, 3, 4, 5}), kCHWN), y = flatten(x);
  EXPECT_EQ(y.storage(), x.storage());
  EXPECT_EQ(y.strides(), (Strides{1, 2}));
  const Tensor dense = contiguous(y), want = counted({2, 60});
  EXPECT_TRUE(std::ranges::equal(dense.data<float>(), want.data<float>()));
}

TEST(Flatten, OfChannelsLastImagesCopiesToRowMajorOrder) {
  const Tensor x = contiguous(counted({2, 3, 4, 5}), kNHWC), y = flatten(x);
  EXPECT_NE(y.storage(), x.storage());
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(y.data<float>()[61], 61);
}

TEST(Slice, RefusesARangeOutsideOfTheAxis) {
  EXPECT_EQ(refusal([] { slice(counted({2, 3}), 1, 2, 4); }), "slice: [2, 4) of axis 1 of x [2,3]");
}
