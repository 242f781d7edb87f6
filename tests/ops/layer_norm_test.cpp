// layer_norm beyond the generic suite: precision, equal rows, and errors.
#include "ops/norm/layer_norm.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include "autograd/backward.h"
#include "ops/elementwise.h"
#include "tests/difference.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::Each;
using testing::ElementsAre;

static Tensor waves(const Shape& shape, double step, double offset = 0) {
  const Tensor t(shape, DType::f64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.ptr<double>()[i] = offset + std::sin(step * double(i * i % 1009));
  return t;
}

// Several chunks of rows. 16-bit x with f32 parameters: statistics and sums are in f32.
TEST(LayerNorm, ValuesAndGradientsAreThoseOfF64Rounded) {
  const std::array<Tensor, 4> given = {waves({100, 37}, 0.1), waves({37}, 0.7, 1), waves({37}, 0.3),
                                       waves({100, 37}, 0.2)};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto results = [&](bool exact) {
      const auto input = [&](int i) {
        const Tensor t = cast(given[i], i == 0 || i == 3 ? dtype : DType::f32);
        return require_grad(exact ? cast(t, DType::f64) : t);
      };
      const Tensor x = input(0), w = input(1), b = input(2), y = layer_norm(x, w, b);
      EXPECT_EQ(y.dtype(), exact ? DType::f64 : dtype);
      backward(sum(mul(y, input(3).detach())));
      return std::array{y.detach(), grad(x), grad(w), grad(b)};
    };
    const auto want = results(true), got = results(false);
    const double rounding = dtype == DType::f32 ? 1e-6 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (int i = 0; i < 4; ++i)
      EXPECT_LE(difference(want[i], got[i]), i < 2 ? rounding : 1e-6) << dtype << i;
  }
}

// E[x^2] - mean^2 in f32 would lose the variance.
TEST(LayerNorm, KeepsTheVarianceOfValuesFarFromZero) {
  const Tensor x = cast(waves({3, 384}, 0.1, 5000), DType::f32);
  const auto normalized = [&](DType dtype) {
    return layer_norm(cast(x, dtype), full({384}, 1, dtype), zeros({384}, dtype));
  };
  EXPECT_LE(difference(normalized(DType::f64), normalized(DType::f32)), 1e-2);
}

TEST(LayerNorm, EqualRowsGiveEqualBitsAtAnyAddress) {
  const Tensor row = cast(waves({37}, 0.1), DType::f32), all({33, 37}, DType::f32);
  for (int64_t n = 0; n < 33; ++n) copy_into(all.view({37}, {1}, n * 37), row);
  const Tensor x = require_grad(all), y = layer_norm(x, row, row);
  backward(sum(mul(y, all)));
  const Tensor dx = grad(x);
  for (int64_t n = 1; n < 33; ++n)
    for (const Tensor& t : {y, dx})
      EXPECT_EQ(std::memcmp(t.bytes(), t.bytes() + n * int64_t(row.nbytes()), row.nbytes()), 0)
          << n;
}

TEST(LayerNorm, OfOneElementIsTheBias) {
  const Tensor x = require_grad(tensor_of<float>({5, -7}, {2, 1}));
  const Tensor y = layer_norm(x, full({1}, 3), full({1}, 2));
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 2));
  backward(sum(y));
  EXPECT_THAT(grad(x).data<float>(), Each(0));
}

TEST(LayerNorm, AddsEpsToTheVariance) {
  const Tensor x = tensor_of<double>({-1, 1}, {2}), one = full({2}, 1, DType::f64);
  EXPECT_THAT(layer_norm(x, one, zeros({2}, DType::f64), 3).data<double>(), ElementsAre(-0.5, 0.5));
}

TEST(LayerNorm, RefusesParametersOfAnotherSize) {
  EXPECT_EQ(refusal([] {
              layer_norm(zeros({2, 3}), zeros({2}), zeros({3}));
            }),
            "layer_norm: x [2,3] needs weight and bias as long as its last axis, got [2] and [3]");
  EXPECT_EQ(refusal([] { layer_norm(zeros({}), zeros({1}), zeros({1})); }),
            "layer_norm: x [] needs weight and bias as long as its last axis, got [1] and [1]");
}
