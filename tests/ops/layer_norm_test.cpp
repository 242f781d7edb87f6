// layer_norm beyond the generic suite: values against plain loops in f64, precision, and errors.
#include "ops/norm/layer_norm.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include "autograd/amp.h"
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

namespace {
struct Expected {
  Tensor y, dx, dw, db;
};
}  // namespace

// The formulas in f64, one row and one element after the other.
static Expected plain(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& dy) {
  const int64_t N = x.dim(0), D = x.dim(1);
  const auto at = [](const Tensor& t, int64_t i) -> double& { return t.ptr<double>()[i]; };
  const Expected e{empty_like(x), empty_like(x), zeros({D}, DType::f64), zeros({D}, DType::f64)};
  for (int64_t n = 0; n < N; ++n) {
    double mean = 0, var = 0, g_mean = 0, gz_mean = 0;
    for (int64_t j = n * D; j < (n + 1) * D; ++j) mean += at(x, j) / double(D);
    for (int64_t j = n * D; j < (n + 1) * D; ++j) var += std::pow(at(x, j) - mean, 2) / double(D);
    const double deviation = std::sqrt(var + 1e-5);
    const auto z = [&](int64_t d) { return (at(x, n * D + d) - mean) / deviation; };
    const auto g = [&](int64_t d) { return at(dy, n * D + d) * at(w, d); };
    for (int64_t d = 0; d < D; ++d) {
      at(e.y, n * D + d) = z(d) * at(w, d) + at(b, d);
      at(e.dw, d) += at(dy, n * D + d) * z(d);
      at(e.db, d) += at(dy, n * D + d);
      g_mean += g(d) / double(D);
      gz_mean += g(d) * z(d) / double(D);
    }
    for (int64_t d = 0; d < D; ++d)
      at(e.dx, n * D + d) = (g(d) - g_mean - z(d) * gz_mean) / deviation;
  }
  return e;
}

// Several chunks of rows. 16-bit x with f32 parameters: statistics and sums are in f32.
TEST(LayerNorm, ValuesAndGradientsAreThoseOfPlainLoops) {
  const auto w64 = cast(waves({37}, 0.7, 1), DType::f32), b64 = cast(waves({37}, 0.3), DType::f32);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = require_grad(cast(waves({100, 37}, 0.1), dtype));
    const Tensor dy = cast(waves({100, 37}, 0.2), dtype);
    const Tensor w = require_grad(w64), b = require_grad(b64);
    const Tensor y = layer_norm(x, w, b);
    EXPECT_EQ(y.dtype(), dtype);
    backward(sum(mul(y, dy)));
    const auto exact = [](const Tensor& t) { return cast(t.detach(), DType::f64); };
    const Expected want = plain(exact(x), exact(w), exact(b), exact(dy));
    const double rounding = dtype == DType::f32 ? 1e-6 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    EXPECT_LE(difference(want.y, y), rounding) << dtype;
    EXPECT_LE(difference(want.dx, grad(x)), rounding) << dtype;
    EXPECT_LE(difference(want.dw, grad(w)), 1e-6) << dtype;
    EXPECT_LE(difference(want.db, grad(b)), 1e-6) << dtype;
  }
}

// E[x^2] - mean^2 in f32 would lose the variance.
TEST(LayerNorm, KeepsTheVarianceOfValuesFarFromZero) {
  const Tensor x = cast(waves({3, 384}, 0.1, 5000), DType::f32), one = full({384}, 1);
  const Tensor exact = cast(x, DType::f64), none = zeros({384});
  const Expected want = plain(exact, cast(one, DType::f64), cast(none, DType::f64), exact);
  EXPECT_LE(difference(want.y, layer_norm(x, one, none)), 1e-2);
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

TEST(LayerNorm, UnderAmpTheResultIsInF32) {
  const Autocast precision(DType::bf16);
  const Tensor x = require_grad(full({2, 3}, 1, DType::bf16)), w = full({3}, 1), b = full({3}, 2);
  EXPECT_EQ(layer_norm(x, w, b).dtype(), DType::f32);
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
