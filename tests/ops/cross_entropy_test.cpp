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

TEST(CrossEntropy, ALabelOutOfRangeIsADataErrorThatNamesTheSample) {
  for (const int64_t label : {-2, 3})
    for (const Impl impl : kBoth) {
      const Tensor labels = tensor_of<int64_t>({2, label}, {2});
      const Refusal refusal = refused([&] { cross_entropy(logits(), labels, {}, impl); });
      EXPECT_EQ(refusal.exit, Exit::data);
      EXPECT_EQ(refusal.message,
                cat("label ", label, " of sample 1 of the batch is not in [0, 3)"));
    }
}

TEST(CrossEntropy, RefusesATargetOfAnotherLength) {
  const Tensor labels = tensor_of<int64_t>({1, 1, 1}, {3});
  EXPECT_THAT(refusal([&] { cross_entropy(logits(), labels); }),
              testing::HasSubstr("[2,3] and target [3]"));
}

// ---- positions that are left out, and a divisor

static Tensor target() { return tensor_of<int64_t>({1, -1, 0, 2, 2, -1}, {2, 3}); }

static Tensor scores() {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back(std::sin(3 * i));
  return tensor_of(values, {2, 3, 4});
}

// Returns the sum of the losses of the positions that count; dx: its gradient.
static double sum_by_loops(double smoothing, std::vector<double>& dx) {
  const Tensor x = scores(), labels = target();
  double sum = 0;
  dx.assign(24, 0);
  for (int64_t n = 0; n < 6; ++n) {
    const int64_t label = labels.data<int64_t>()[n];
    if (label == -1) continue;
    const double* const row = x.ptr<double>() + 4 * n;
    double all = 0;
    for (int c = 0; c < 4; ++c) all += std::exp(row[c]);
    for (int c = 0; c < 4; ++c) {
      const double q = (1 - smoothing) * (c == label) + smoothing / 4;
      sum -= q * (row[c] - std::log(all));
      dx[4 * n + c] = std::exp(row[c]) / all - q;
    }
  }
  return sum;
}

TEST(CrossEntropy, LeavesOutWhatIsMarkedOfScoresOfAnyRank) {
  for (const Impl impl : kBoth)
    for (const double smoothing : {0., 0.2})
      for (const double divisor : {0., 2.5}) {
        SCOPED_TRACE(cat(impl == Impl::fused, " ", smoothing, " ", divisor));
        const Tensor x = require_grad(scores());
        const Tensor over = divisor > 0 ? full({}, divisor) : Tensor();
        const Tensor loss = cross_entropy(x, target(), {.label_smoothing = smoothing}, impl, over);
        backward(loss);
        std::vector<double> want;
        const double sum = sum_by_loops(smoothing, want), n = divisor > 0 ? divisor : 4;
        EXPECT_NEAR(loss.item(), sum / n, 1e-14);
        const Tensor dx = grad(x);
        for (int i = 0; i < 24; ++i) EXPECT_NEAR(dx.data<double>()[i], want[i] / n, 1e-15) << i;
      }
}

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
                cross_entropy(scores(), tensor_of<int64_t>({0, 0, -1, 0, 4, 0}, {2, 3}), {}, impl);
              }),
              "label 4 of sample 1 of the batch at position 1 is not in [0, 4)");
}

TEST(CrossEntropy, RefusesADivisorThatIsNoScalarInF32) {
  const Tensor labels = tensor_of<int64_t>({2, 0}, {2});
  for (const Tensor& divisor : {full({1}, 2), full({}, 2, DType::f64)})
    EXPECT_THAT(refusal([&] { cross_entropy(logits(), labels, {}, Impl::fused, divisor); }),
                testing::HasSubstr(cat("the divisor is ", divisor.dtype(), " ", divisor.shape())));
}
