// Reductions beyond the generic suite: axes and precision.
#include "ops/reduce.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "core/tensor/foreach.h"
#include "ops/shape.h"
#include "tests/on_device.h"

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

// ---- on each device

static void expect_sums_with_their_digits(Device device) {
  const int64_t n = 1 << 16;
  const Tensor small = full({n, 2}, 0.1, DType::f32, device);
  EXPECT_FLOAT_EQ(sum(small).item(), 2 * n * double(0.1f));
  EXPECT_FLOAT_EQ(sum(slice(sum(small, {.axes = {0}}), 0, 1, 2)).item(), n * double(0.1f));
  EXPECT_EQ(sum(zeros({0, 3}, DType::f32, device)).item(), 0);
}

TEST(Reduce, SumsKeepTheirDigitsAndNothingSumsToZero) {
  expect_sums_with_their_digits(Device::cpu);
}

class ReduceOnDevice : public OnDevice<> {};

TEST_F(ReduceOnDevice, SumsKeepTheirDigitsAndNothingSumsToZero) {
  expect_sums_with_their_digits(Device::cuda);
}
