// Reductions beyond the generic suite: order, precision, ties and NaN.
#include "ops/reduce.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

TEST(Reduce, SumsOverAnyAxes) {
  const Tensor x = tensor_of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(sum(x, {.axes = {0}}).data<float>(), ElementsAre(5, 7, 9));
  EXPECT_THAT(sum(x, {.axes = {-1}}).data<float>(), ElementsAre(6, 15));
  EXPECT_EQ(sum(x).item(), 21);
  EXPECT_EQ(sum(x).rank(), 0);
  EXPECT_EQ(sum(x, {.keepdim = true}).shape(), (Shape{1, 1}));
  EXPECT_EQ(mean(x).item(), 3.5);
}

TEST(Reduce, AMillionSmallNumbersKeepTheirDigits) {
  const int64_t n = 1 << 20;
  EXPECT_FLOAT_EQ(sum(full({n}, 0.1)).item(), n * double(0.1f));
  EXPECT_FLOAT_EQ(sum(full({n, 2}, 0.1), {.axes = {0}}).data<float>()[1], n * double(0.1f));
}

TEST(Reduce, NothingSumsToZero) {
  EXPECT_EQ(sum(Tensor({0, 3}, DType::f32)).item(), 0);
}
