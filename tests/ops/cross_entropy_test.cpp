// cross_entropy beyond the generic suite: known values, and wrong labels.
#include "ops/cross_entropy.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "tests/refusal.h"

using namespace bellows;

static const Impl kBoth[] = {Impl::composed, Impl::fused};

// softmax of (0, log 2, log 5) is (1, 2, 5) / 8.
static Tensor logits() { return tensor_of<double>({0, std::log(2), std::log(5), 0, 0, 0}, {2, 3}); }

TEST(CrossEntropy, RefusesToSpreadMoreThanAllOrLessThanNothing) {
  const Tensor labels = tensor_of<int64_t>({2, 0}, {2});
  for (const double smoothing : {-0.5, 1.5, double(NAN)})
    EXPECT_EQ(refusal([&] { cross_entropy(logits(), labels, {.label_smoothing = smoothing}); }),
              cat("cross_entropy: label_smoothing ", smoothing, " is not in [0, 1]"));
}

TEST(CrossEntropy, LogitsBeyondTheRangeOfExpAreFine) {
  const Tensor x = tensor_of<float>({1000, 0, -1000, -1000, 0, 1000}, {2, 3});
  const Tensor labels = tensor_of<int64_t>({0, 0}, {2});
  for (const Impl impl : kBoth) EXPECT_FLOAT_EQ(cross_entropy(x, labels, {}, impl).item(), 1000);
}

// log(sum(exp(x))) in one f32 would lose what is far smaller than the largest logit.
TEST(CrossEntropy, LargeLogitsTakeNoDigitsFromSmallLosses) {
  const Tensor labels = tensor_of<int64_t>({0, 1}, {2});
  for (const Impl impl : kBoth)
    for (const double smoothing : {0., 0.1}) {
      const Tensor x = require_grad(tensor_of<float>({20, 8, 1e8F, 1e8F}, {2, 2}));
      const Tensor loss = cross_entropy(x, labels, {.label_smoothing = smoothing}, impl);
      const double sure = std::log1p(std::exp(-12)), even = std::log(2);
      EXPECT_NEAR(loss.item(), (sure + smoothing * 6 + even) / 2, 1e-7);
      backward(loss);
      const Tensor gradient = grad(x);
      const std::span<const float> dx = gradient.data<float>();
      const double other = 1 / (1 + std::exp(12)) - smoothing / 2;
      EXPECT_NEAR(dx[0], -other / 2, 6e-8);  // the last digit of a probability near 1
      EXPECT_NEAR(dx[1], other / 2, 2e-9);
      EXPECT_NEAR(dx[2], 0.25 - smoothing / 4, 1e-7);
      EXPECT_NEAR(dx[3], -0.25 + smoothing / 4, 1e-7);
    }
}

// ---- positions that are left out, and a divisor

TEST(CrossEntropy, IsZeroWhereNothingCounts) {
  for (const Impl impl : kBoth) {
    const Tensor x = require_grad(logits());
    const Tensor loss = cross_entropy(x, tensor_of<int64_t>({-1, -1}, {2}), {}, impl);
    backward(loss);
    EXPECT_EQ(loss.item(), 0);
    for (const double dx : grad(x).data<double>()) EXPECT_EQ(dx, 0);
  }
}

TEST(CrossEntropy, DoesNotReadWhatIsLeftOut) {
  const Tensor x =
      require_grad(tensor_of<double>({0, std::log(2), std::log(5), 0, NAN, INFINITY}, {2, 3}));
  const Tensor loss = cross_entropy(x, tensor_of<int64_t>({2, -1}, {2}));
  backward(loss);
  EXPECT_NEAR(loss.item(), std::log(8.0 / 5), 1e-14);
  const Tensor dx = grad(x);
  for (int i = 3; i < 6; ++i) EXPECT_EQ(dx.data<double>()[i], 0);
}

TEST(CrossEntropy, NamesSampleAndPositionOfAWrongLabel) {
  for (const Impl impl : kBoth)
    EXPECT_EQ(refusal([&] {
                const Tensor labels = tensor_of<int64_t>({0, 0, -1, 0, 4, 0}, {2, 3});
                cross_entropy(full({2, 3, 4}, 1), labels, {}, impl);
              }),
              "label 4 of sample 1 of the batch at position 1 is not in [0, 4)");
}

TEST(CrossEntropy, RefusesADivisorThatIsNoScalarInF32) {
  const Tensor labels = tensor_of<int64_t>({2, 0}, {2});
  for (const Tensor& divisor : {full({1}, 2), full({}, 2, DType::f64)})
    EXPECT_THAT(refusal([&] { cross_entropy(logits(), labels, {}, Impl::fused, divisor); }),
                testing::HasSubstr(cat("the divisor is ", divisor.dtype(), " ", divisor.shape())));
}
