// Elementwise ops beyond the generic suite: NaN, memory formats, saved tensors.
#include "ops/elementwise.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/foreach.h"

using namespace bellows;
using testing::ElementsAre;

TEST(Elementwise, BroadcastsAsNumPyDoes) {
  const Tensor a = tensor_of<float>({1, 2, 3}, {3}), b = tensor_of<float>({10, 20}, {2, 1});
  const Tensor y = add(a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_THAT(y.data<float>(), ElementsAre(11, 12, 13, 21, 22, 23));
}

TEST(Elementwise, ReluAndMaximumHandOnNaN) {
  const Tensor x = tensor_of<float>({NAN, -1, 2}, {3}), zero = full({}, 0);
  EXPECT_TRUE(std::isnan(relu(x).data<float>()[0]));
  EXPECT_TRUE(std::isnan(maximum(x, zero).data<float>()[0]));
  EXPECT_TRUE(std::isnan(maximum(zero, x).data<float>()[0]));
  EXPECT_TRUE(std::isnan(minimum(zero, x).data<float>()[0]));
}

TEST(Elementwise, KeepsTheMemoryFormatOfADenseInput) {
  for (const MemoryFormat& format : {kNCHW, kNHWC, kCHWN}) {
    const Tensor x(Shape{2, 3, 4, 5}, DType::f32, Device::cpu, format);
    fill(x, 1);
    EXPECT_TRUE(relu(x).is_contiguous(format)) << format.name;
    EXPECT_TRUE(add(x, x).is_contiguous(format)) << format.name;
    EXPECT_TRUE(add(full({3, 1, 1}, 1), x).is_contiguous(format)) << format.name;
  }
}

TEST(Elementwise, ReluSavesItsOutputWhichTheNextOpSavesToo) {
  trace::Counter& saved = trace::counter("mem.saved_bytes");
  const Tensor x = require_grad(full({100}, 1));
  const int64_t before = saved.value();
  const Tensor y = relu(x), z = square(y);
  EXPECT_EQ(saved.value() - before, 400);
}

TEST(Elementwise, AddSavesNothing) {
  trace::Counter& saved = trace::counter("mem.saved_bytes");
  const Tensor x = require_grad(full({100}, 1));
  const int64_t before = saved.value();
  const Tensor y = add(mul(x, 2), add(x, 1));
  EXPECT_EQ(saved.value(), before);
}

TEST(Elementwise, ComputesNoGradientThatNobodyAsksFor) {
  const auto sums = [] {
    int64_t runs = 0;
    for (const KernelRecord* kernel : kernel_records())
      if (std::string_view(kernel->name) == "sum") runs += kernel->runs[0];
    return runs;
  };
  const Tensor x = require_grad(full({2, 3}, 1)), b = full({3}, 1);
  for (const Tensor& y : {add(x, b), sub(x, b), add_relu(x, b, Impl::fused)}) {
    const Tensor loss = sum(y);
    const int64_t before = sums();
    backward(loss);
    EXPECT_EQ(sums(), before);
  }
}

TEST(Elementwise, AtATieTheGradientOfMaximumIsShared) {
  const Tensor a = require_grad(full({}, 2)), b = require_grad(full({}, 2));
  backward(maximum(a, b));
  EXPECT_EQ(grad(a).item(), 0.5);
  EXPECT_EQ(grad(b).item(), 0.5);
}

TEST(Elementwise, RefusesTwoDTypes) {
  EXPECT_THAT([] { add(full({2}, 1), full({2}, 1, DType::f64)); },
              testing::ThrowsMessage<Error>("add: a is f32 and b is f64"));
}
