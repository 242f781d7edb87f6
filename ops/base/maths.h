// Branch-free exp, log, tanh, sigmoid and normal distribution in float. They consist of sums and
// products only, so loops over them are vectorized. Every product that feeds a sum is a std::fma,
// so the bits do not depend on the vector width, the position in a row or the surrounding chain.
//
// Errors are in units in the last place (ulp), measured over every 97th float
// (tests/ops/maths_test.cpp). In double the standard library defines each function. GPUs use CUDA's
// exp, log and tanh.
#pragma once
#include <cmath>
#include "core/base/half.h"

namespace bellows {

// A loop is vectorized only if its formula is inlined, which GCC otherwise decides by size.
#ifdef __CUDACC__
#define FORMULA HD inline
#else
#define FORMULA [[gnu::always_inline]] inline
#endif

#ifdef __CUDA_ARCH__
inline constexpr bool kOnGpu = true;
#else
inline constexpr bool kOnGpu = false;
#endif
inline constexpr float kInfinity = std::bit_cast<float>(0x7f800000);
inline constexpr float kNaN = std::bit_cast<float>(0x7fc00000);

// |x|, on the bits: for a Bf16, GCC then compiles one instruction without a float.
FORMULA float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffff);
}
FORMULA double magnitude(double x) { return std::fabs(x); }

// c0 + c1 x + c2 x^2 + ..., by Horner's rule.
template <class... Cs> FORMULA float polynomial(float x, float c0, Cs... cs) {
  if constexpr (sizeof...(cs) == 0)
    return c0;
  else
    return std::fma(polynomial(x, cs...), x, c0);
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2, minimax.
FORMULA float exp_series(float r) {
  return polynomial(r, 0.4999999341f, 0.1666652014f, 0.04166839424f, 0.00836877643f,
                    0.001381446803f);
}
FORMULA float exp_near_0(float r) { return std::fma(std::fma(exp_series(r), r, 1.f), r, 1.f); }

// x = n ln(2) + r with |r| <= ln(2) / 2. The low bits of `bits` hold n + bias.
struct Octaves {
  float r;
  uint32_t bits;
};
template <int bias> FORMULA Octaves octaves(float x) {
  constexpr float magic = 0x1.8p23f + bias;  // adding it rounds to an integer
  const float shifted = std::fma(x, float(M_LOG2E), magic), n = shifted - magic;
  return {std::fma(n, 2.12194440e-4f, std::fma(n, -0.693359375f, x)),
          std::bit_cast<uint32_t>(shifted)};
}

// e^x = 2^n e^r; 1 ulp. x is clamped to +-104 as an integer, which GCC compiles to one instruction.
// |n| reaches 150, so 2^n is a product of two factors.
FORMULA float exp_of(float x) {
  if constexpr (kOnGpu) return std::exp(x);
  const uint32_t given = std::bit_cast<uint32_t>(x);
  const uint32_t above = given < 0xc2d00000 ? given : 0xc2d00000;
  const int32_t clamped = int32_t(above) < 0x42d00000 ? int32_t(above) : 0x42d00000;
  const auto [r, bits] = octaves<2 * 127>(std::bit_cast<float>(clamped));
  const uint32_t half = bits >> 1;
  const float first = std::bit_cast<float>(half << 23);
  const float y = exp_near_0(r) * first * std::bit_cast<float>((bits - half) << 23);
  return x == x ? y : x;
}
FORMULA double exp_of(double x) { return std::exp(x); }

// 2^24 e^x for x in [-104.3, 0] or NaN; 1 ulp. e^x itself may be subnormal.
FORMULA float scaled_exp_below_0(float x) {
  if constexpr (kOnGpu) return std::exp(x) * 0x1p24f;
  const auto [r, bits] = octaves<127 + 24>(x);
  return exp_near_0(r) * std::bit_cast<float>(bits << 23);
}
FORMULA float exp_below_0(float x) { return scaled_exp_below_0(x) * 0x1p-24f; }

// log(2^e (1 + f)) with 1 + f in [sqrt(1/2), sqrt(2)); 1 ulp. Subnormal x is first scaled by 2^23.
FORMULA float log_of(float x) {
  if constexpr (kOnGpu) return std::log(x);
  constexpr uint32_t lowest = 0x3f3504f3;  // sqrt(1/2)
  const uint32_t raise = -uint32_t(x < 0x1p-126f) & (23 << 23);
  const float normal = x * std::bit_cast<float>(0x3f800000 + raise);
  const uint32_t bits = std::bit_cast<uint32_t>(normal) - lowest - raise;
  const float e = float(int32_t(bits) >> 23);
  const float f = std::bit_cast<float>((bits & 0x7fffff) + lowest) - 1, square = f * f;
  const float series =
      polynomial(f, -0.5f, 0.3333333172f, -0.2500082103f, 0.2000122661f, -0.166233571f,
                 0.1420175616f, -0.1316017996f, 0.1276161732f, -0.07634574963f);
  const float y = std::fma(e, float(M_LN2), std::fma(square, series, f));
  const float not_positive = x == 0 ? -kInfinity : kNaN, finite = x < kInfinity ? y : x;
  return x > 0 ? finite : not_positive;
}
FORMULA double log_of(double x) { return std::log(x); }

// -m / (2 + m) with m = e^(-2 |x|) - 1, and the sign of x; 3 ulp. The result is 1 from 9.02 on.
FORMULA float tanh_of(float x) {
  if constexpr (kOnGpu) return std::tanh(x);
  const float a = std::fabs(x) > 9.02f ? 9.02f : std::fabs(x);
  const auto [r, bits] = octaves<127>(-2 * a);
  const float scale = std::bit_cast<float>(bits << 23);
  const float m = std::fma(scale, std::fma(exp_series(r) * r, r, r), scale - 1);
  return std::copysign(m / (2 + m), x);
}
FORMULA double tanh_of(double x) { return std::tanh(x); }

// 1 / (1 + e^-x), computed from an exponential that cannot overflow; 3 ulp.
FORMULA float sigmoid_of(float x) {
  const float a = std::fabs(x) > 104 ? 104 : std::fabs(x), e = exp_below_0(-a);
  return (x < 0 ? e : 1.f) / (1 + e);
}
FORMULA double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// min(|x|, 14.44): beyond it the two functions below are 0 or 1. NaN also becomes 14.44; gelu and
// its slope multiply by x, which makes the result NaN again.
FORMULA float clamped_size(float x) {
  const uint32_t size = std::bit_cast<uint32_t>(magnitude(x)), most = 0x41670a3d;
  return std::bit_cast<float>(size < most ? size : most);
}

// 2^24 e^(-x^2 / 2); 2 ulp. The rounding error of the power grows with x^2, so it is added back.
FORMULA float scaled_gauss(float x) {
  const float a = clamped_size(x), half = -0.5f * a, power = half * a;
  const float e = scaled_exp_below_0(power), lost = std::fma(half, a, -power);
  return std::fma(e, lost, e);
}
FORMULA float gauss(float x) { return scaled_gauss(x) * 0x1p-24f; }
FORMULA double gauss(double x) { return std::exp(-x * x / 2); }

// P(X <= x) of the normal distribution; 5 ulp. For x <= 0 it is gauss(x) P(|x|) / Q(|x|), with P
// and Q in |x| and -x^2 / 2. P undoes gauss's scale.
FORMULA float normal_cdf(float x) {
  constexpr float k = 0x1p-24f;
  const float a = clamped_size(x), power = -0.5f * a * a;
  const float p_middle = std::fma(a, k * -0.081266442f, k * -0.36647024f);
  const float p_high = std::fma(power, k * 0.016465236f, p_middle);
  const float p = std::fma(power, p_high, std::fma(a, k * 0.43829491f, k * 0.5f));
  const float q_middle = std::fma(a, -0.93894114f, -2.405006f);
  const float q_high = std::fma(power, std::fma(a, 0.041271748f, 0.40743532f), q_middle);
  const float q = std::fma(power, q_high, std::fma(a, 1.6744748f, 1.f));
  const float tail = scaled_gauss(x) * (p / q);
  return x > 0 ? 1 - tail : tail;
}
FORMULA double normal_cdf(double x) { return std::erfc(-x * M_SQRT1_2) / 2; }

}  // namespace bellows
