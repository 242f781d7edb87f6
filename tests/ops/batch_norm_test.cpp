#include "ops/norm/batch_norm.h"
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace bellows {

// Several groups of rows, some with fewer rows, values far from 0, and a mean that drifts from
// group to group. Sums of squares around 0, or around the first element of all, would lose the
// variance.
TEST(BatchNorm, StatisticsAreThoseOfAllPartsTogether) {
  for (const int64_t channels : {48, 200}) {
    const Shape shape{9, channels, 15, 14};
    const Tensor x(shape, DType::f32);
    const int64_t plane = 15 * 14;
    double mean[200] = {}, var[200] = {};
    for (const bool second : {false, true})
      for (int64_t i = 0; i < x.numel(); ++i) {
        const int64_t n = i / plane / channels, c = i / plane % channels;
        if (!second) x.ptr<float>()[i] = float(5000 + 100 * n + c + std::sin(double(i * i % 1009)));
        const double v = x.ptr<float>()[i], count = double(9 * plane);
        if (second)
          var[c] += (v - mean[c]) * (v - mean[c]) / count;
        else
          mean[c] += v / count;
      }
    for (const MemoryFormat& format : {kNCHW, kNHWC}) {
      const Tensor statistics = kernels::channel_statistics(contiguous(x, format), {});
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_NEAR(statistics.ptr<float>()[c], mean[c], 1e-3) << format.name << " channel " << c;
        EXPECT_NEAR(statistics.ptr<float>()[channels + c] / var[c], 1, 1e-4)
            << format.name << " channel " << c;
      }
    }
  }
}

// A norm receives the gradients of two consumers of y apart, and adds them itself.
TEST(BatchNorm, OfTwoConsumersTakesTheSumOfTheirGradients) {
  const Shape shape{3, 5, 4, 3};
  const auto values = [&](int step, const Shape& shape) {
    const Tensor t(shape, DType::f32);
    for (int64_t i = 0; i < t.numel(); ++i) t.ptr<float>()[i] = float(i * step % 97) / 32 - 1;
    return t;
  };
  const Tensor weight = values(5, {5}), bias = values(3, {5});
  const auto expect_sum = [&](Tensor (*run)(const Tensor& x, const NormLayer& norm)) {
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool training : {true, false}) {
        const Tensor a = cast(values(11, shape), dtype), b = cast(values(23, shape), dtype);
        const auto gradient = [&](bool two) {
          const Tensor x = require_grad(cast(values(7, shape), dtype));
          const Tensor y =
              run(x, {weight, bias, {full({5}, 0.25), full({5}, 2)}, {.training = training}});
          backward(sum(two ? add(mul(y, a), mul(y, b)) : mul(y, add(a, b))));
          return cast(grad(x), DType::f32);
        };
        const Tensor one = gradient(false), two = gradient(true);
        for (int64_t i = 0; i < one.numel(); ++i)
          ASSERT_EQ(two.ptr<float>()[i], one.ptr<float>()[i]) << dtype << " element " << i;
      }
  };
  expect_sum(batch_norm);
  expect_sum([](const Tensor& x, const NormLayer& norm) { return batch_norm_relu(x, {}, norm); });
  expect_sum([](const Tensor& x, const NormLayer& norm) { return batch_norm_gelu(x, norm); });
}

}  // namespace bellows
