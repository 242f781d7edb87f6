// matmul, linear and conv2d beyond the generic suite: empty tensors, and mixed dtypes.
#include <gtest/gtest.h>
#include <cmath>
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce.h"
#include "tests/refusal.h"

using namespace bellows;

static bool all(const Tensor& t, float value) {
  return std::ranges::all_of(t.data<float>(), [&](float x) { return x == value; });
}

TEST(Products, OfNothingAreZero) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool vendor : {false, true}) {
      const Kernels use({.vendor = vendor});
      const Tensor a({2, 3, 0}, dtype), b({2, 0, 4}, dtype), y = full({2, 3, 4}, NAN, dtype);
      kernels::multiply(y, a, b);
      EXPECT_TRUE(all(cast(y, DType::f32), 0)) << dtype << vendor;
      fill(y, 1);
      kernels::multiply(y, a, b, Into::add);
      EXPECT_TRUE(all(cast(y, DType::f32), 1)) << dtype << vendor;
    }
}

// An inner dimension of 0 keeps the rows of the result.
TEST(Products, OfRowsOfNothingKeepTheRows) {
  for (const bool vendor : {false, true}) {
    const Kernels use({.vendor = vendor});
    const Tensor x = require_grad(Tensor({2, 3, 0}, DType::f32));
    const Tensor y = matmul(x, Tensor({0, 5}, DType::f32));
    EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
    EXPECT_TRUE(all(y, 0)) << vendor;
    const Tensor rows = linear(x, Tensor({5, 0}, DType::f32), full({5}, 7));
    EXPECT_EQ(rows.shape(), (Shape{2, 3, 5}));
    EXPECT_TRUE(all(rows, 7)) << vendor;
    backward(sum(rows));
    EXPECT_EQ(grad(x).shape(), x.shape());
  }
}

// ---- one dtype

TEST(Products, RefuseTwoDTypes) {
  const Tensor rows = full({2, 3}, 1), images = full({2, 3, 4, 4}, 1);
  const Tensor w = full({4, 3}, 1, DType::f16), b = full({4}, 1, DType::f64);
  EXPECT_EQ(refusal([&] { matmul(rows, transposed(w)); }), "matmul: a is f32 and b is f16");
  EXPECT_EQ(refusal([&] { linear(rows, w, {}); }), "linear: x is f32 and w is f16");
  for (const Impl impl : {Impl::composed, Impl::fused})
    EXPECT_EQ(refusal([&] {
                linear_relu(rows, full({4, 3}, 1), b, impl);
              }),
              impl == Impl::fused ? "linear_relu: x is f32 and b is f64"
                                  : "linear: x is f32 and b is f64");
  const Tensor filter = full({4, 3, 1, 1}, 1, DType::bf16);
  EXPECT_EQ(refusal([&] { conv2d(images, filter, {}); }), "conv2d: x is f32 and w is bf16");
  EXPECT_EQ(refusal([&] {
              conv2d(images, full({4, 3, 1, 1}, 1), b);
            }),
            "conv2d: x is f32 and b is f64");
  EXPECT_EQ(refusal([&] { conv_act_pool(images, filter, b, {}, Impl::fused); }),
            "conv_act_pool: x is f32 and w is bf16");
}

// Autocast casts f32 only.
TEST(Products, RefuseOneLowDTypeUnderTheAutocastOfAnother) {
  const Autocast cast(DType::bf16);
  const Tensor x = full({2, 3}, 1, DType::f16), w = full({4, 3}, 1);
  EXPECT_EQ(refusal([&] { linear(x, w, {}); }), "linear: x is f16 and w is bf16");
  EXPECT_EQ(refusal([&] { matmul(x, transposed(w)); }), "matmul: a is f16 and b is bf16");
  EXPECT_EQ(refusal([&] {
              conv2d(full({2, 3, 4, 4}, 1, DType::f16), full({4, 3, 1, 1}, 1), {});
            }),
            "conv2d: x is f16 and w is bf16");
}
