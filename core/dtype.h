// Element types. bf16 and f16 are storage types: arithmetic happens in float.
#pragma once
#include <bit>
#include <cstdint>
#include <ostream>
#include "core/check.h"

// Functions that kernels of every device share.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif

namespace bellows {

enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

// The upper half of a float, rounded to nearest even; NaN stays NaN.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  HD explicit Bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    bits = value != value ? uint16_t(u >> 16 | 0x40) : uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  HD operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE half: 5 bits of exponent, 10 of mantissa, subnormals kept, rounded to nearest even.
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
    const bool special = (bits & 0x7c00) == 0x7c00;
    // 2^112 moves the exponent's bias from 15 to 127, and normalises subnormals on the way.
    const float value =
        special ? std::bit_cast<float>(rest | 0x7f800000) : std::bit_cast<float>(rest) * 0x1p112f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
};

template <class T> struct DTypeOf;
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<Bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<F16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::u8; };
template <class T> inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls fn(T{}) with the C++ type of `dtype`.
template <class Fn> decltype(auto) visit_dtype(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f64:
      return fn(double{});
    case DType::f32:
      return fn(float{});
    case DType::bf16:
      return fn(Bf16{});
    case DType::f16:
      return fn(F16{});
    case DType::i64:
      return fn(int64_t{});
    case DType::i32:
      return fn(int32_t{});
    case DType::u8:
      break;
  }
  return fn(uint8_t{});
}

inline size_t size_of(DType dtype) {
  return visit_dtype(dtype, []<class T>(T) { return sizeof(T); });
}
inline const char* name_of(DType dtype) {
  constexpr const char* names[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u8"};
  return names[static_cast<int>(dtype)];
}
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }
inline bool is_float(DType dtype) { return dtype <= DType::f16; }

// Calls fn(float{}) or fn(double{}): the types in which plain CPU kernels compute.
template <class Fn> decltype(auto) visit_float(DType dtype, Fn&& fn) {
  CHECK(dtype == DType::f32 || dtype == DType::f64, "needs f32 or f64, got ", dtype);
  return dtype == DType::f32 ? fn(float{}) : fn(double{});
}

}  // namespace bellows
