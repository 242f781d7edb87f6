// Element types. bf16 and f16 are storage types: arithmetic happens in float.
#pragma once
#include <cstdint>
#include <ostream>
#include <type_traits>
#include "core/base/check.h"
#include "core/base/half.h"

namespace bellows {

enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

template <class T> struct DTypeOf;
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<Bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<F16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::u8; };
template <class T> inline constexpr DType dtype_of = DTypeOf<T>::value;
constexpr bool is_low(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// Calls fn(T{}) with the C++ type of `dtype`.
template <class Fn> decltype(auto) visit_dtype(DType dtype, Fn&& fn) {
  if (dtype == DType::f64) return fn(double{});
  if (dtype == DType::f32) return fn(float{});
  if (dtype == DType::bf16) return fn(Bf16{});
  if (dtype == DType::f16) return fn(F16{});
  if (dtype == DType::i64) return fn(int64_t{});
  if (dtype == DType::i32) return fn(int32_t{});
  return fn(uint8_t{});
}

template <class T> inline constexpr bool is_half = is_low(dtype_of<T>);

// Converts between element types. Rounds to nearest, but truncates from floating point to integer.
// Conversions from or to a 16-bit type go through float.
template <class To, class From> HD To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (is_half<To> || is_half<From>)
    return static_cast<To>(static_cast<float>(value));
  else
    return static_cast<To>(value);
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

// Calls fn(T{}) with the C++ type of `dtype`, which must be a float type (else Error, exit 2).
// Kernels of these store T and compute in Acc<T>.
template <class Fn> decltype(auto) visit_stored(DType dtype, Fn&& fn) {
  CHECK(is_float(dtype), "needs f64, f32, bf16 or f16, got ", dtype);
  if (dtype == DType::f64) return fn(double{});
  if (dtype == DType::bf16) return fn(Bf16{});
  if (dtype == DType::f16) return fn(F16{});
  return fn(float{});
}

// Calls fn(float{}) or fn(double{}), the types that plain CPU kernels compute in. Other dtypes
// throw Error, exit 2.
template <class Fn> decltype(auto) visit_float(DType dtype, Fn&& fn) {
  CHECK(dtype == DType::f32 || dtype == DType::f64, "needs f32 or f64, got ", dtype);
  return dtype == DType::f32 ? fn(float{}) : fn(double{});
}

}  // namespace bellows
