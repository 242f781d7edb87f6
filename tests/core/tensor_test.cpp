// Shapes, strides, views and memory formats.
#include "core/tensor/tensor.h"
#include <pmmintrin.h>
#include <numeric>
#include "tests/matchers.h"
#include "tests/refusal.h"

using namespace bellows;

static Tensor counting(const Shape& shape) {
  const Tensor t(shape, DType::f32);
  std::iota(t.data<float>().begin(), t.data<float>().end(), 0.0f);
  return t;
}

TEST(Shape, HoldsAtMostSixAxes) {
  Shape shape{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(shape.numel(), 720);
  EXPECT_EQ(shape[-1], 6);
  EXPECT_THAT(refusal([&] { shape.push_back(7); }), HasSubstr("at most 6 axes"));
  EXPECT_THAT(refusal([] { Shape({1, 2, 3, 4, 5, 6, 7}); }), HasSubstr("got 7"));
  EXPECT_EQ(cat(Shape{2, 3}), "[2,3]");
}

TEST(Shape, AxesCountFromTheFrontOrTheBack) {
  EXPECT_EQ(axis_of(-1, Shape{2, 3, 4}, "op"), 2);
  EXPECT_EQ(axis_of(2, Shape{2, 3, 4}, "op"), 2);
  for (const int axis : {-4, 3})
    EXPECT_EQ(refusal([&] {
                axis_of(axis, Shape{2, 3, 4}, "op");
              }),
              cat("op: no axis ", axis, " in shape [2,3,4]"));
}

// With one channel or one pixel all formats have the same order in memory. The strides record which
// one was requested.
TEST(Tensor, KeepsItsFormatWhereSeveralFit) {
  for (const Shape& shape : {Shape{2, 1, 4, 5}, Shape{2, 3, 1, 1}, Shape{2, 3, 4, 5}})
    for (const MemoryFormat& format : {kNCHW, kNHWC}) {
      const Tensor t(shape, DType::f32, Device::cpu, format);
      EXPECT_STREQ(format_of(t).name, format.name) << shape;
      EXPECT_STREQ(format_of(empty_like(t)).name, format.name) << shape;
    }
}

TEST(Tensor, DenseMeansOneBlockInSomeOrder) {
  const Tensor t = counting({4, 6});
  EXPECT_TRUE(t.view({4, 1, 6}, {6, 99, 1}, 0).is_contiguous()) << "axes of size 1 do not matter";
  EXPECT_TRUE(t.view({6, 1, 4}, {1, 99, 6}, 0).is_dense());
  EXPECT_TRUE(t.view({6, 4}, {1, 6}, 0).is_dense());
  EXPECT_FALSE(t.view({6, 4}, {1, 6}, 0).is_contiguous());
  EXPECT_TRUE(t.view({2, 6}, {6, 1}, 12).is_dense());  // rows 2 and 3
  EXPECT_FALSE(t.view({4, 3}, {6, 1}, 0).is_dense());  // half of each row
  EXPECT_FALSE(t.view({4, 3}, {6, 2}, 0).is_dense());  // every second column
  EXPECT_FALSE(t.view({4, 6}, {0, 1}, 0).is_dense());  // one row four times
  EXPECT_FALSE(t.view({4, 4}, {1, 1}, 0).is_dense());  // overlapping
  EXPECT_TRUE(t.view({4, 0}, {77, 5}, 0).is_dense());  // nothing
  EXPECT_TRUE(Tensor({2, 3, 4, 5}, DType::f32, Device::cpu, kNHWC).is_dense());
  EXPECT_TRUE(Tensor({2, 3, 4, 5}, DType::f32, Device::cpu, kNHWC).is_contiguous(kNHWC));
}

TEST(Tensor, ReadingInTheWrongTypeOrOrderIsRefused) {
  const Tensor t = counting({4, 6});
  EXPECT_EQ(refusal([&] { t.ptr<double>(); }), "a tensor of f32 was read as f64");
  EXPECT_THAT(refusal([&] { t.view({6, 4}, {1, 6}, 0).data<float>(); }), HasSubstr("[1,6]"));
  EXPECT_EQ(refusal([&] { t.item(); }), "item() of a tensor of shape [4,6]");
  EXPECT_EQ(refusal([] { tensor_of<float>({1, 2}, {3}); }), "2 values for shape [3]");
}

// Independent of the thread's mode for subnormal floats: threads of the pool flush them to 0.
TEST(DType, SixteenBitFloatsSurviveTheWayThereAndBack) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    F16 half;
    half.bits = uint16_t(bits);
    const float value = half;
    if (value == value) {
      EXPECT_EQ(F16(value).bits, half.bits) << bits;
    }
    Bf16 brain;
    brain.bits = uint16_t(bits);
    const float wide = brain;
    if (wide == wide) {
      EXPECT_EQ(Bf16(wide).bits, brain.bits) << bits;
    }
  }
  _mm_setcsr(before);
}

// Tests values below, at and above the midpoint of each pair of neighbors. Ties go to even.
template <class T> static void expect_nearest_even(uint16_t last) {
  for (uint16_t bits = 0; bits < last; ++bits) {
    T low, high;
    low.bits = bits, high.bits = uint16_t(bits + 1);
    const float middle = float((double(float(low)) + float(high)) / 2);
    const T even = bits % 2 ? high : low;
    ASSERT_EQ(T(middle).bits, even.bits) << bits;
    ASSERT_EQ(T(std::nextafter(middle, -1.0f)).bits, low.bits) << bits;
    ASSERT_EQ(T(std::nextafter(middle, 1e30f)).bits, high.bits) << bits;
    ASSERT_EQ(T(-middle).bits, even.bits | 0x8000) << bits;
  }
}

TEST(DType, SixteenBitFloatsRoundToNearestEven) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~(_MM_FLUSH_ZERO_MASK | _MM_DENORMALS_ZERO_MASK));  // tests subnormals too
  expect_nearest_even<F16>(0x7bff);   // up to 65504, the largest finite one
  expect_nearest_even<Bf16>(0x7100);  // 6.3e29: the neighbor of the midpoint stays a finite float
  _mm_setcsr(before);
}

TEST(DType, NaNAndInfinityStayWhatTheyAre) {
  const float nan = std::nanf(""), inf = INFINITY;
  EXPECT_TRUE(std::isnan(float(F16(nan))) && std::isnan(float(Bf16(nan))));
  EXPECT_EQ(float(F16(inf)), inf);
  EXPECT_EQ(float(Bf16(-inf)), -inf);
  EXPECT_EQ(float(F16(65519.0f)), 65504.0f);
  EXPECT_EQ(float(F16(65520.0f)), inf);
}
