// bf16 and f16: storage types, whose arithmetic happens in float. The CPU converts with integer
// operations, a GPU with its own instructions (inline PTX, because <cuda_fp16.h> is not available
// to kernels compiled at run time). Both round alike, but a NaN becomes 0x7fff on a GPU and keeps
// its sign and the upper bits of its payload (bf16) or its sign (f16) on the CPU.
//
// Kernels compiled at run time contain this text too, so it includes only <bit> and <cstdint>.
#pragma once
#include <bit>
#include <cstdint>

// Marks functions that run on the host and on the device.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif

// Set in code for GPUs that convert to both types, in pairs too: Ampere and later.
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
#define CONVERTS_IN_HARDWARE 1
#else
#define CONVERTS_IN_HARDWARE 0
#endif

namespace bellows {

// The upper half of a float, rounded to nearest even; NaN stays NaN.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  HD explicit Bf16(float value) {
#if CONVERTS_IN_HARDWARE
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const uint32_t u = std::bit_cast<uint32_t>(value);
    // Chosen in 32 bits, which leaves a vectorized loop a single narrowing.
    const uint32_t rounded = value != value ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
    bits = uint16_t(rounded >> 16);
#endif
  }
  // Converts a value that is a Bf16 already, without rounding.
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
#if CONVERTS_IN_HARDWARE
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
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
#endif
  }
  HD operator float() const {
#if CONVERTS_IN_HARDWARE
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = uint32_t(bits & 0x7fff) << 13;
    const uint32_t exponent = bits & 0x7c00;
    // Adding 112 changes the exponent bias from 15 to 127. No step has a subnormal float, which
    // threads in flush-to-zero mode would lose.
    const uint32_t value = exponent == 0x7c00 ? rest | 0x7f800000
                           : exponent         ? rest + (112 << 23)
                                      : std::bit_cast<uint32_t>(float(rest >> 13) * 0x1p-24f);
    return std::bit_cast<float>(value | sign);
#endif
  }
};

// The type that kernels compute in for stored type T: double for double, else float.
template <class T> using Acc = decltype(T() + 0.0f);

// n consecutive elements, 16 bytes by default, which a GPU's thread loads or stores at once.
template <class T, int n = 16 / sizeof(T)> struct alignas(n * sizeof(T)) AlignedVector {
  static constexpr int kSize = n;
  T at[n];
};

#if CONVERTS_IN_HARDWARE
// Rounds both values in one instruction; `low` comes first in memory.
template <class T> __device__ uint32_t rounded_pair(float low, float high);
template <> __device__ inline uint32_t rounded_pair<Bf16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <> __device__ inline uint32_t rounded_pair<F16>(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif

// Returns the values rounded to T, in pairs where a GPU can.
template <class T, int n> HD AlignedVector<T, n> packed(const Acc<T> (&values)[n]) {
  AlignedVector<T, n> vector;
  int k = 0;
#if CONVERTS_IN_HARDWARE
  if constexpr (sizeof(T) == 2)
    for (; k + 1 < n; k += 2) {
      const uint32_t pair = rounded_pair<T>(values[k], values[k + 1]);
      vector.at[k].bits = uint16_t(pair), vector.at[k + 1].bits = uint16_t(pair >> 16);
    }
#endif
  for (; k < n; ++k) vector.at[k] = T(values[k]);
  return vector;
}

}  // namespace bellows
