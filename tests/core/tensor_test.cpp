// Shapes, strides, memory formats, copies between dtypes.
#include "core/tensor.h"
#include <gtest/gtest.h>
#include "core/copy.h"

using namespace bellows;

TEST(Tensor, MemoryFormatsAreStrideOrders) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_EQ(strides_of(shape, kNCHW), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(strides_of(shape, kNHWC), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(strides_of(shape, kCHWN), (Strides{1, 40, 10, 2}));
}

TEST(Tensor, CopyVisitsEveryElementInEveryFormat) {
  const Shape shape{2, 3, 4, 5};
  Tensor x(shape, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = float(i);
  for (const MemoryFormat& a : {kNCHW, kNHWC, kCHWN})
    for (const MemoryFormat& b : {kNCHW, kNHWC, kCHWN}) {
      const Tensor back = contiguous(contiguous(contiguous(x, a), b));
      EXPECT_TRUE(std::ranges::equal(back.data<float>(), x.data<float>())) << a.name << b.name;
    }
}

TEST(DType, SixteenBitFloatsSurviveTheWayThereAndBack) {
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
}
