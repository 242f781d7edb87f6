// The formulas of ops/base/maths.h against the standard library in double, and their bits in each
// loop that a kernel may run them in. Compiled with the product's -O3, so the loops are vectorized.
//
//   BELLOWS_MATHS_STRIDE=1 build/tests/ops_test --gtest_filter='Maths.*'    # all 2^32 floats
#include "ops/base/maths.h"
#include <gtest/gtest.h>
#include <cstdlib>
#include <vector>
#include "ops/base/map.h"
#include "ops/elementwise.h"

using namespace bellows;

namespace {

uint64_t stride() {
  const char* const given = std::getenv("BELLOWS_MATHS_STRIDE");
  return given ? std::strtoull(given, nullptr, 10) : 9973;
}

// Calls fn(x) for every stride-th bit pattern, and for the edges of each formula.
template <class Fn> void for_floats(uint64_t stride, const Fn& fn) {
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += stride)
    fn(std::bit_cast<float>(uint32_t(bits)));
  for (const float edge :
       {0.f, 0x1p-149f, 0x1p-126f, 0.70710678f, 1.f, 9.02f, 14.44f, 87.33654f, 88.72284f,
        103.97208f, 104.f, 1e10f, 0x1p64f, 0x1.fffffep127f, INFINITY, NAN})
    for (const float x : {std::nextafter(edge, 0.f), edge, std::nextafter(edge, INFINITY)})
      fn(x), fn(-x);
}

// In units in the last place of `exact`, or of `floor` if that is larger.
double error_in_ulp(float y, double exact, double floor) {
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) == std::isnan(y) ? 0 : INFINITY;
  if (std::isinf(y))
    return std::abs(exact) >= 0x1.ffffffp127 && (y > 0) == (exact > 0) ? 0 : INFINITY;
  if (std::isinf(exact)) return INFINITY;
  int exponent;
  std::frexp(std::max(std::abs(exact), floor), &exponent);
  return std::abs(y - exact) * std::ldexp(1.0, 24 - exponent);
}

// Calls fn with floats, and with doubles for the exact result.
template <class Fn> void expect_within(double ulp, const Fn& fn, double floor = 0x1p-126) {
  double worst = 0;
  float at = 0;
  for_floats(stride(), [&](float x) {
    const double error = error_in_ulp(fn(x), fn(double(x)), floor);
    if (error > worst) worst = error, at = x;
  });
  EXPECT_LE(worst, ulp) << "at " << at;
  EXPECT_GT(worst, ulp / 4) << "the bound is no longer the formula's";
}

}  // namespace

TEST(Maths, ExpIsWithinOneUlp) {
  expect_within(1, [](auto x) { return exp_of(x); });
}
TEST(Maths, LogIsWithinOneUlp) {
  expect_within(1, [](auto x) { return log_of(x); });
}
TEST(Maths, TanhIsWithinThreeUlpAndNeverBeyondOne) {
  expect_within(3, [](auto x) { return tanh_of(x); });
  for_floats(stride(), [](float x) { ASSERT_FALSE(std::abs(tanh_of(x)) > 1) << x; });
}
TEST(Maths, SigmoidIsWithinThreeUlp) {
  expect_within(3, [](auto x) { return sigmoid_of(x); });
}
// NaN is left out here. It returns in the functions that multiply by x.
TEST(Maths, TheNormalDistributionIsWithinItsUlp) {
  expect_within(2, [](auto x) { return x == x ? gauss(x) : 0; });
  expect_within(5, [](auto x) { return x == x ? normal_cdf(x) : 0; });
}
// For very negative x a factor is subnormal and has fewer bits.
TEST(Maths, GeluAndSiluAreWithinSixUlpOfResultsThatMatter) {
  constexpr double floor = 1e-35;
  expect_within(
      6, [](auto x) { return functors::Gelu::value(x); }, floor);
  expect_within(
      6, [](auto x) { return functors::Silu::value(x); }, floor);
}

// ---- the same bits in every loop

namespace {

uint32_t bits_of(float y) { return y == y ? std::bit_cast<uint32_t>(y) : 0x7fc00000; }

void expect_bits(const char* name, const char* loop, std::span<const float> x,
                 std::span<const float> want, std::span<const float> got) {
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(bits_of(want[i]), bits_of(got[i])) << name << " of " << x[i] << " in " << loop;
}

// One element at a time; volatile prevents vectorization.
template <class Fn> std::vector<float> one_by_one(std::span<const float> x, const Fn& fn) {
  std::vector<float> y;
  for (const float v : x) {
    volatile float hidden = v;
    y.push_back(fn(float(hidden)));
  }
  return y;
}

template <class Fn> void expect_same_in_loops(const char* name, std::span<const float> x, Fn fn) {
  const std::vector<float> want = one_by_one(x, fn);
  std::vector<float> baseline(x.size()), wide(x.size());
  map_dense(baseline.data(), int64_t(x.size()), fn, x.data());
  expect_bits(name, "the baseline's vectors", x, want, baseline);
  in_wide_loop<float>([&]() __attribute__((always_inline)) {
    map_dense(wide.data(), int64_t(x.size()), fn, x.data());
  });
  expect_bits(name, "the widest vectors", x, want, wide);
}

template <class F> void expect_same_bits(std::span<const float> x) {
  expect_same_in_loops(F::name, x, [](float v) { return F::value(v); });
  expect_same_in_loops(F::name, x, [](float v) { return functors::Slope<F>::value(0.7f, v); });
  // The op itself, on a dense vector and on every second element of one.
  const int64_t n = int64_t(x.size());
  std::vector<float> twice;
  for (const float v : x) twice.insert(twice.end(), {v, v});
  const Tensor dense = tensor_of<float>({x.begin(), x.end()}, {n});
  const Tensor sparse = tensor_of<float>(twice, {2 * n}).view({n}, {2}, 0);
  const Tensor y = kernels::unary<F>(dense), z = kernels::unary<F>(sparse);
  const std::vector<float> want = one_by_one(x, [](float v) { return F::value(v); });
  expect_bits(F::name, "the op", x, want, y.template data<float>());
  expect_bits(F::name, "the op with strides", x, want, z.template data<float>());
}
template <class... Fs> void expect_same_bits(TypeList<Fs...>, std::span<const float> x) {
  (expect_same_bits<Fs>(x), ...);
}

}  // namespace

TEST(Maths, BitsDependOnNeitherVectorWidthNorPlace) {
  std::vector<float> x;
  for_floats(199999, [&](float v) { x.push_back(v); });
  for (int64_t i = 0; i < 3000; ++i) x.push_back(float(i - 1500) * 0.0101f);
  x.resize(x.size() / 64 * 64 + 23);  // ends with a partial vector
  expect_same_bits(functors::UnaryOps{}, x);
}
