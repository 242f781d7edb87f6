// Elementwise ops beyond the generic suite: NaN, memory formats, saved tensors.
#include "ops/elementwise.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstring>
#include <numeric>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "ops/base/map.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

TEST(Elementwise, BroadcastsAsNumPyDoes) {
  const Tensor a = tensor_of<float>({1, 2, 3}, {3}), b = tensor_of<float>({10, 20}, {2, 1});
  const Tensor y = add(a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_THAT(y.data<float>(), ElementsAre(11, 12, 13, 21, 22, 23));
}

TEST(Elementwise, ReadsOneStorageInTwoOrders) {
  const Tensor x = tensor_of<float>({1, 2, 3, 4}, {2, 2}), transposed = x.view({2, 2}, {1, 2}, 0);
  EXPECT_THAT(mul(x, transposed).data<float>(), ElementsAre(1, 6, 6, 16));
}

TEST(Elementwise, ReluAndMaximumHandOnNaN) {
  const Tensor x = tensor_of<float>({NAN, -1, 2}, {3}), zero = full({}, 0);
  EXPECT_TRUE(std::isnan(relu(x).data<float>()[0]));
  EXPECT_TRUE(std::isnan(maximum(x, zero).data<float>()[0]));
  EXPECT_TRUE(std::isnan(maximum(zero, x).data<float>()[0]));
  EXPECT_TRUE(std::isnan(minimum(zero, x).data<float>()[0]));
}

TEST(Elementwise, GradientsOfDivisorsThatHaveNoSquare) {
  const Tensor a = tensor_of<float>({0, 1e-30F, 1e30F, 3}, {4});
  const Tensor b = require_grad(tensor_of<float>({1e-30F, 1e-30F, 1e30F, 1e30F}, {4}));
  backward(sum(div(a, b)));
  const Tensor gradient = grad(b);
  const std::span<const float> db = gradient.data<float>();
  EXPECT_EQ(db[0], 0);
  EXPECT_NEAR(db[1] / -1e30F, 1, 1e-6);
  EXPECT_NEAR(db[2] / -1e-30F, 1, 1e-6);
  EXPECT_EQ(db[3], 0) << "3e-60 is below the smallest number";
}

template <class T> static void expect_no_sign(DType dtype) {
  const Tensor x = cast(tensor_of<float>({-0.0F, -1.5F, 2, -INFINITY, NAN}, {5}), dtype);
  const Tensor magnitudes = abs(x);
  const std::span<T> y = magnitudes.data<T>();
  EXPECT_THAT(std::vector<double>(y.begin(), y.begin() + 4), ElementsAre(0, 1.5, 2, INFINITY));
  EXPECT_TRUE(std::isnan(double(y[4])));
  for (const T value : y) EXPECT_FALSE(std::signbit(double(value)));
}
TEST(Elementwise, AbsClearsTheSignAlsoOfZero) {
  expect_no_sign<float>(DType::f32);
  expect_no_sign<double>(DType::f64);
  expect_no_sign<Bf16>(DType::bf16);
  expect_no_sign<F16>(DType::f16);
}

// Every value of a 16-bit type, subnormals and NaN included, times factors that make ties.
template <class T> static void expect_products_to_be_rounded_once(DType dtype) {
  const Tensor x({1 << 16}, dtype);
  const std::span<T> all = x.data<T>();
  for (size_t i = 0; i < all.size(); ++i) all[i].bits = uint16_t(i);
  for (const float factor : {1.f, 1.5f, 1 + 0x1p-7f}) {
    const Tensor products = mul(x, full({}, factor, dtype));
    for (size_t i = 0; i < all.size(); ++i) {
      const T got = products.data<T>()[i], want(float(all[i]) * factor);
      const bool both_nan = std::isnan(float(got)) && std::isnan(float(want));
      ASSERT_TRUE(both_nan || got.bits == want.bits) << dtype << " " << float(all[i]) << factor;
    }
  }
}
TEST(Elementwise, RoundsProductsIn16BitsOnce) {
  expect_products_to_be_rounded_once<Bf16>(DType::bf16);
  expect_products_to_be_rounded_once<F16>(DType::f16);
}

// Outputs of at least kLargeBytes are computed in blocks, and those of at least streamed_bytes()
// are stored another way, unless a view makes them unaligned.
template <class T> static void expect_bits_of_pieces(DType dtype, int64_t bytes) {
  const auto fn = [](auto a, auto b) { return functors::Gelu::value(a) + b; };
  const int64_t n = bytes / sizeof(T) + 12'345, piece = 5'000;
  Tensor a({n}, DType::f32), b({n}, DType::f32);
  fill_uniform(a, -4, 4, {.seed = 1});
  fill_uniform(b, -4, 4, {.seed = 2});
  a = cast(a, dtype), b = cast(b, dtype);
  const Tensor y(Shape{n + 1}, dtype, Device::cpu), want(Shape{n}, dtype, Device::cpu);
  for (int64_t i = 0; i < n; i += piece) {
    const auto part = [&](const Tensor& t) { return t.view({std::min(piece, n - i)}, {1}, i); };
    const Tensor a_ = part(a), b_ = part(b);
    map_into(part(want), {&a_, &b_}, fn);
  }
  for (const int64_t offset : {0, 1}) {
    fill(y, -9);
    map_into(y.view({n}, {1}, offset), {&a, &b}, fn);
    const T* const got = y.ptr<T>();
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are compared
    EXPECT_EQ(std::memcmp(got + offset, want.ptr<T>(), n * sizeof(T)), 0) << offset;
    EXPECT_EQ(float(got[offset ? 0 : n]), -9) << offset;
  }
}
TEST(Elementwise, LargeOutputsHaveTheBitsOfSmallOnes) {
  expect_bits_of_pieces<float>(DType::f32, kLargeBytes);
  expect_bits_of_pieces<Bf16>(DType::bf16, kLargeBytes);
}
TEST(Elementwise, OutputsThatBypassTheCachesHaveTheSameBits) {
  constexpr int64_t n = kMapBlock<float>, rows = 3;
  alignas(32) std::array<float, rows* n + 1> y = {};
  std::array<float, rows * n> x, want;
  std::iota(x.begin(), x.end(), -500.0f);
  const auto half = [](auto v) { return v / 2; };
  map_dense(want.data(), rows * n, half, x.data());
  const Rows<float> blocks{y.data(), {x.data()}, rows, n, n, {n}, Access::streamed};
  kLoops<decltype(half), 1>.f32.dense(&half, blocks);
  EXPECT_TRUE(std::equal(want.begin(), want.end(), y.begin()));
  EXPECT_EQ(y[rows * n], 0) << "beyond the last";
  if (streamed_bytes() > 64 << 20) GTEST_SKIP() << "the last cache holds more than a test should";
  expect_bits_of_pieces<float>(DType::f32, streamed_bytes());
  expect_bits_of_pieces<Bf16>(DType::bf16, streamed_bytes());
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

// relu saves its output, which is also the input that square saves. add saves nothing.
TEST(Elementwise, SavesWhatBackwardReadsAndThatOnce) {
  const Moved saved("mem.saved_bytes");
  const Tensor x = require_grad(full({100}, 1));
  const Tensor y = relu(x), z = square(y);
  EXPECT_EQ(saved, 400);
  const Tensor added = add(mul(x, 2), add(x, 1));
  EXPECT_EQ(saved, 400);
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
  EXPECT_EQ(refusal([] { add(full({2}, 1), full({2}, 1, DType::f64)); }),
            "add: a is f32 and b is f64");
}
