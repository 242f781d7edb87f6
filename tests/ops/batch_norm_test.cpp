#include "ops/norm/batch_norm.h"
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/difference.h"
#include "tests/on_device.h"

namespace bellows {

// Several groups of rows, some with fewer rows, values far from 0, and a mean that drifts from
// group to group. Sums of squares around 0, or around the first element of all, would lose the
// variance.
TEST(BatchNorm, StatisticsAreThoseOfAllPartsTogether) {
  const int64_t plane = 15 * 14;
  for (const int64_t channels : {48, 200}) {
    const Tensor x({9, channels, 15, 14}, DType::f32);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const int64_t n = i / plane / channels, c = i / plane % channels;
      x.ptr<float>()[i] = float(5000 + 100 * n + c + std::sin(double(i * i % 1009)));
    }
    const Tensor want = kernels::channel_statistics(cast(x, DType::f64), {});
    for (const MemoryFormat& format : {kNCHW, kNHWC}) {
      const Tensor got = kernels::channel_statistics(contiguous(x, format), {});
      const float* const mean = got.ptr<float>();
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_NEAR(mean[c], want.ptr<double>()[c], 1e-3) << format.name << " channel " << c;
        EXPECT_NEAR(mean[channels + c] / want.ptr<double>()[channels + c], 1, 1e-4)
            << format.name << " channel " << c;
      }
    }
  }
}

// A norm receives the gradients of two consumers of y apart, and adds them itself. Sums over a
// channel may differ in the last place on a GPU, whose compiler fuses other multiply-adds.
static void expect_the_sum_of_two(Device device, const Tensor& like) {
  const auto values = [&](int step, const Shape& shape) {
    const Tensor t(shape, DType::f32);
    for (int64_t i = 0; i < t.numel(); ++i) t.ptr<float>()[i] = float(i * step % 97) / 32 - 1;
    return to(device, t);
  };
  const int64_t channels = like.dim(1);
  const auto start = [&](double value) { return full({channels}, value, DType::f32, device); };
  const Tensor weight = values(5, {channels}), bias = values(3, {channels});
  const auto expect_sum = [&](Tensor (*run)(const Tensor& x, const NormLayer& norm)) {
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool training : {true, false}) {
        const auto image = [&](int step) {
          return contiguous(cast(values(step, like.shape()), dtype), format_of(like));
        };
        const Tensor a = image(11), b = image(23);
        const auto gradient = [&](bool two) {
          const Tensor x = require_grad(image(7));
          const Tensor y = run(x, {weight, bias, {start(0.25), start(2)}, {.training = training}});
          backward(sum(two ? add(mul(y, a), mul(y, b)) : mul(y, add(a, b))));
          return grad(x);
        };
        const double rounding = dtype == DType::f32 ? 2e-6 : 8e-3;
        EXPECT_LE(difference(gradient(false), gradient(true)), device == Device::cpu ? 0 : rounding)
            << dtype << " " << like.shape();
      }
  };
  expect_sum(batch_norm);
  expect_sum([](const Tensor& x, const NormLayer& norm) { return batch_norm_relu(x, {}, norm); });
  expect_sum([](const Tensor& x, const NormLayer& norm) { return batch_norm_relu(x, x, norm); });
}

TEST(BatchNorm, OfTwoConsumersTakesTheSumOfTheirGradients) {
  expect_the_sum_of_two(Device::cpu, Tensor({3, 5, 4, 3}, DType::f32));
}

class BatchNormOnDevice : public OnDevice<> {};

TEST_F(BatchNormOnDevice, OfTwoConsumersTakesTheSumOfTheirGradients) {
  for (const MemoryFormat& format : {kNHWC, kNCHW})
    for (const Shape& shape : {Shape{5, 24, 5, 7}, {9, 3, 4, 8}})
      expect_the_sum_of_two(Device::cuda, Tensor(shape, DType::f32, Device::cpu, format));
}

}  // namespace bellows
