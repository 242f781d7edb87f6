// bf16 and f16: storage types, whose arithmetic happens in float. Kernels compiled at run time
// contain this text too, so it includes only <bit> and <cstdint>.
#pragma once
#include <bit>
#include <cstdint>

// Marks functions that run on the host and on the device.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif

namespace bellows {

// The upper half of a float, rounded to nearest even; NaN stays NaN.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  HD explicit Bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    // Chosen in 32 bits, which leaves a vectorized loop a single narrowing.
    const uint32_t rounded = value != value ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
    bits = uint16_t(rounded >> 16);
  }
  // For a value that is a Bf16 already: no rounding.
  HD static Bf16 exact(float value) {
    Bf16 upper;
    upper.bits = uint16_t(std::bit_cast<uint32_t>(value) >> 16);
    return upper;
  }
  HD operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE half precision: 5 exponent bits, 10 mantissa bits, with subnormals, rounded to nearest even.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  HD explicit F16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      bits = uint16_t(sign | 0x7e00);  // NaN
    } else if (magnitude >= 0x477ff000) {
      bits = uint16_t(sign | 0x7c00);  // rounds to infinity
    } else if (magnitude < 0x38800000) {
      // Subnormal: adding 0.5 leaves value / 2^-24, rounded by the hardware, in the low bits.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      bits = uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
    } else {
      bits = uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
    }
  }
  HD operator float() const {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = uint32_t(bits & 0x7fff) << 13;
    const uint32_t exponent = bits & 0x7c00;
    // Adding 112 changes the exponent bias from 15 to 127. No step has a subnormal float, which
    // threads in flush-to-zero mode would lose.
    const uint32_t value = exponent == 0x7c00 ? rest | 0x7f800000
                           : exponent         ? rest + (112 << 23)
                                      : std::bit_cast<uint32_t>(float(rest >> 13) * 0x1p-24f);
    return std::bit_cast<float>(value | sign);
  }
};

// The type that kernels compute in for stored type T: double for double, else float.
template <class T> using Acc = decltype(T() + 0.0f);

// n consecutive elements, 16 bytes by default, which a GPU's thread loads or stores at once.
template <class T, int n = 16 / sizeof(T)> struct alignas(n * sizeof(T)) AlignedVector {
  static constexpr int kSize = n;
  T at[n];
};

}  // namespace bellows
