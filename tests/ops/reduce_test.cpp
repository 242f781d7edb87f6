// Reductions beyond the generic suite: order, precision, ties and NaN.
#include "ops/reduce.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/on_device.h"
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

TEST(Reduce, ArgmaxCountsAlongItsAxisInAnyMemoryOrder) {
  const Tensor x = tensor_of<float>({1, 5, 9, 2, 3, 4}, {2, 3});
  EXPECT_THAT(argmax(x, 1).data<int64_t>(), ElementsAre(2, 2));
  EXPECT_THAT(argmax(x, 0).data<int64_t>(), ElementsAre(1, 0, 0));
  const Tensor flipped = x.view({3, 2}, {1, 3}, 0);
  EXPECT_THAT(argmax(flipped, 0).data<int64_t>(), ElementsAre(2, 2));
}

TEST(Reduce, MaxIsExactInSixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = require_grad(cast(tensor_of<float>({1, 2.5, 7, -3}, {2, 2}), dtype));
    const Tensor y = max(x, {.axes = {1}});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_THAT(cast(y.detach(), DType::f32).data<float>(), ElementsAre(2.5, 7));
    EXPECT_THAT(argmax(x.detach(), 1).data<int64_t>(), ElementsAre(1, 0));
    backward(sum(y));
    EXPECT_THAT(cast(grad(x), DType::f32).data<float>(), ElementsAre(0, 1, 1, 0));
  }
}

TEST(Reduce, RefusesTheLargestOfNothing) {
  EXPECT_EQ(refusal([] { max(Tensor({0, 3}, DType::f32)); }), "max: x [0,3] is empty");
}

// ---- on each device

static void expect_first_of_equals_nan_and_digits(Device device) {
  const Tensor x = require_grad(full({50000}, 3, DType::f32, device));
  backward(max(x));
  const Tensor dx = to(Device::cpu, grad(x));
  synchronize(current_stream(device));
  EXPECT_EQ(dx.data<float>()[0], 1);
  EXPECT_EQ(std::ranges::count(dx.data<float>(), 0.f), 49999);
  std::vector<float> some(50000);
  some[300] = some[40000] = NAN;
  const Tensor y = tensor_of(some, {50000}, device);
  EXPECT_TRUE(std::isnan(max(y).item()));
  EXPECT_EQ(argmax(y, 0).item(), 300);
  const int64_t n = 1 << 16;
  const Tensor small = full({n, 2}, 0.1, DType::f32, device);
  EXPECT_FLOAT_EQ(sum(small).item(), 2 * n * double(0.1f));
  EXPECT_FLOAT_EQ(max(sum(small, {.axes = {0}})).item(), n * double(0.1f));
  EXPECT_EQ(sum(zeros({0, 3}, DType::f32, device)).item(), 0);
}

TEST(Reduce, TakesTheFirstOfEqualsHandsOnNaNAndKeepsDigits) {
  expect_first_of_equals_nan_and_digits(Device::cpu);
}

class ReduceOnDevice : public OnDevice<> {};

TEST_F(ReduceOnDevice, TakesTheFirstOfEqualsHandsOnNaNAndKeepsDigits) {
  expect_first_of_equals_nan_and_digits(Device::cuda);
}
