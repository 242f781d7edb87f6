// SIMD vectors of a width chosen at run time. A kernel is a template over the number of lanes, with
// everything it calls [[gnu::always_inline]]; in_lanes() compiles it for AVX-512 and for AVX2.
#pragma once
#include <emmintrin.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>
#include "core/base/half.h"

namespace bellows {

// Vector of L values. Access memory only with load() and store(), which accept any address of a T.
template <class T, int L> struct LanesOf {
  // NOLINTNEXTLINE(modernize-use-using): GCC ignores the attribute there
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};
template <class T, int L> using Lanes = typename LanesOf<T, L>::type;

// Element type in registers for a stored type S: S itself, or float for 16-bit floats.
template <class S> using Lane = std::conditional_t<std::is_arithmetic_v<S>, S, Acc<S>>;

// Bf16 is the upper half of a float, so one shuffle converts; GCC's own conversion takes five.
template <int L, int... half>
[[gnu::always_inline]] inline Lanes<float, L> widen(Lanes<uint16_t, L> bits,
                                                    std::integer_sequence<int, half...>) {
  const Lanes<uint16_t, L> zero{};
  return (Lanes<float, L>)__builtin_shufflevector(bits, zero, (half % 2 ? half / 2 : L)...);
}
template <int L, int... lane>
[[gnu::always_inline]] inline Lanes<uint16_t, L> upper(Lanes<uint32_t, L> values,
                                                       std::integer_sequence<int, lane...>) {
  const auto halves = (Lanes<uint16_t, 2 * L>)values;
  return __builtin_shufflevector(halves, halves, (2 * lane + 1)...);
}

// The formulas of F16 (core/base/half.h) on vectors with 32 bits a lane. Magnitudes are never
// negative, so signed integers suffice.
template <int L> [[gnu::always_inline]] inline Lanes<float, L> widen_half(Lanes<int32_t, L> bits) {
  const Lanes<int32_t, L> rest = (bits & 0x7fff) << 13, exponent = bits & 0x7c00;
  const auto small =
      (Lanes<int32_t, L>)(__builtin_convertvector(rest >> 13, Lanes<float, L>) * 0x1p-24f);
  const Lanes<int32_t, L> number = exponent == 0 ? small : rest + (112 << 23);
  const Lanes<int32_t, L> value = exponent == 0x7c00 ? rest | 0x7f800000 : number;
  return (Lanes<float, L>)(value | (bits & 0x8000) << 16);
}
template <int L> [[gnu::always_inline]] inline Lanes<int32_t, L> half_bits(Lanes<float, L> values) {
  const auto bits = (Lanes<int32_t, L>)values;
  const Lanes<int32_t, L> magnitude = bits & 0x7fffffff;
  const auto small = (Lanes<int32_t, L>)((Lanes<float, L>)magnitude + 0.5f) - 0x3f000000;
  const auto u = (Lanes<uint32_t, L>)magnitude;
  const auto normal = (Lanes<int32_t, L>)((u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13);
  const Lanes<int32_t, L> number = magnitude < 0x38800000 ? small : normal;
  const Lanes<int32_t, L> finite = magnitude >= 0x477ff000 ? Lanes<int32_t, L>{} + 0x7c00 : number;
  const Lanes<int32_t, L> value = magnitude > 0x7f800000 ? Lanes<int32_t, L>{} + 0x7e00 : finite;
  return value | (bits >> 16 & 0x8000);
}

template <int L, class S> [[gnu::always_inline]] inline Lanes<Lane<S>, L> load(const S* from) {
  if constexpr (std::is_same_v<S, Bf16>) {
    return widen<L>(load<L>(&from->bits), std::make_integer_sequence<int, 2 * L>());
  } else if constexpr (std::is_same_v<S, F16>) {
    return widen_half<L>(__builtin_convertvector(load<L>(&from->bits), Lanes<int32_t, L>));
  } else {
    Lanes<S, L> values;
    __builtin_memcpy(&values, from, sizeof values);
    return values;
  }
}
template <int L, class S>
[[gnu::always_inline]] inline void store(S* to, Lanes<Lane<S>, L> values) {
  if constexpr (std::is_same_v<S, Bf16>) {  // rounds as Bf16(float) does
    using Bits = Lanes<uint32_t, L>;
    const Bits u = (Bits)values;
    const Bits bits = values != values ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
    store<L>(&to->bits, upper<L>(bits, std::make_integer_sequence<int, L>()));
  } else if constexpr (std::is_same_v<S, F16>) {
    store<L>(&to->bits, __builtin_convertvector(half_bits<L>(values), Lanes<uint16_t, L>));
  } else {
    __builtin_memcpy(to, &values, sizeof values);
  }
}

template <int L, class T> [[gnu::always_inline]] inline void add_to(T* sum, Lanes<T, L> values) {
  store<L>(sum, load<L>(sum) + values);
}

// Folds the lanes of v, by halves.
template <int L, class T, class Fold>
[[gnu::always_inline]] inline T fold_lanes(Lanes<T, L> v, const Fold& fold) {
  if constexpr (L == 1) {
    return v[0];
  } else {
    const auto half = [&]<int... i>(std::integer_sequence<int, i...>, auto first) {
      return __builtin_shufflevector(v, v, (i + decltype(first)::value)...);
    };
    constexpr auto lanes = std::make_integer_sequence<int, L / 2>();
    return fold_lanes<L / 2, T>(fold(half(lanes, std::integral_constant<int, 0>()),
                                     half(lanes, std::integral_constant<int, L / 2>())),
                                fold);
  }
}

// ---- bit masks: one bit per element, in the order of the elements, 8 per byte

template <class T> using MaskOf = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// Bit of each lane within its byte: 1, 2, 4, ... If L < 8, vectors share bytes, hence j % 8.
template <class M, int L> [[gnu::always_inline]] inline Lanes<M, L> lane_bits(int64_t j) {
  Lanes<M, L> bits;
  for (int i = 0; i < L; ++i) bits[i] = M(1) << i;
  return L < 8 ? bits << M(j % 8) : bits;
}
// Writes the bits of elements [j, j + L) of a row that starts on a byte. Lanes of `mask` are 0 or
// -1. j is a multiple of L, and calls must have ascending j: the first one for a byte overwrites
// it.
template <int L, class M>
[[gnu::always_inline]] inline void put_bits(uint8_t* row, int64_t j, Lanes<M, L> mask) {
  if constexpr (L == 16) {
    const auto bytes = (__m128i) __builtin_convertvector(mask, Lanes<int8_t, L>);
    const auto bits = uint16_t(_mm_movemask_epi8(bytes));
    __builtin_memcpy(row + j / 8, &bits, sizeof bits);
  } else {
    const auto bits = uint8_t(fold_lanes<L, M>(mask & lane_bits<M, L>(j), std::bit_or()));
    row[j / 8] = j % 8 ? row[j / 8] | bits : bits;
  }
}
// Reads the bits of elements [j, j + L): -1 in lanes whose bit is set, 0 in the others.
template <int L, class M>
[[gnu::always_inline]] inline Lanes<M, L> get_bits(const uint8_t* row, int64_t j) {
  std::conditional_t<L == 16, uint16_t, uint8_t> bits;
  __builtin_memcpy(&bits, row + j / 8, sizeof bits);
  const Lanes<M, L> all = Lanes<M, L>{} + M(bits);
  constexpr int top = 8 * sizeof(M) - 1;  // moved to the sign bit, then spread over the lane
  Lanes<M, L> up;
  for (int i = 0; i < L; ++i) up[i] = top - i;
  return all << (L < 8 ? up - M(j % 8) : up) >> top;
}

// Returns -1 in NaN lanes, else 0. It shifts, because GCC scalarizes combined comparisons.
template <class A, int L>
[[gnu::always_inline]] inline Lanes<MaskOf<A>, L> nan_mask(Lanes<A, L> v) {
  using M = MaskOf<A>;
  constexpr M infinity = sizeof(A) == 8 ? M(0x7ff0000000000000) : M(0x7f800000);
  const Lanes<M, L> magnitude = (Lanes<M, L>)v & std::numeric_limits<M>::max();
  return (infinity - magnitude) >> M(8 * sizeof(A) - 1);
}

template <class Body>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq")]] void in_avx512_lanes(const Body& body) {
  body.template operator()<16>();
}

// Number of lanes for T on this CPU: 16 floats with AVX-512, else 32 bytes. Doubles, which only
// tests and gradient checks use, always take 32 bytes.
template <class T> int lane_count() {
  static const bool wide = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return sizeof(T) == 4 && wide ? 16 : 32 / sizeof(T);
}

// Calls body.operator()<L>() with L = lane_count<T>(), compiled for the matching instruction set.
template <class T, class Body> void in_lanes(const Body& body) {
  if constexpr (sizeof(T) == 4) {
    if (lane_count<T>() == 16) return in_avx512_lanes(body);
  }
  body.template operator()<32 / sizeof(T)>();
}

// Calls fn.operator()<L>(j) for the full vectors of a row, then fn.operator()<1>(j) for the rest.
template <int L, class Fn> [[gnu::always_inline]] inline void along(int64_t length, const Fn& fn) {
  int64_t j = 0;
  for (; j + L <= length; j += L) fn.template operator()<L>(j);
  for (; j < length; ++j) fn.template operator()<1>(j);
}

// ---- transposes between contiguous elements of one sample and contiguous samples of one element

// Exchanges the upper `half` lanes of each block of 2 * half in a with the lower ones in b.
template <int half, class T, int L, int... lane>
[[gnu::always_inline]] inline void exchange(Lanes<T, L>& a, Lanes<T, L>& b,
                                            std::integer_sequence<int, lane...>) {
  const Lanes<T, L> low = __builtin_shufflevector(a, b, (lane & half ? lane - half + L : lane)...);
  b = __builtin_shufflevector(a, b, (lane & half ? lane + L : lane + half)...);
  a = low;
}

// Transposes L rows of L lanes in log2(L) stages.
template <class T, int L, int half = L / 2>
[[gnu::always_inline]] inline void transpose(Lanes<T, L>* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i)
    if (!(i & half))
      exchange<half, T, L>(rows[i], rows[i + half], std::make_integer_sequence<int, L>());
  if constexpr (half > 1) transpose<T, L, half / 2>(rows);
}

// For n < samples, i < size: to[n * to_sample + i] = from[n * from_sample + at[i]]. If at[1] =
// at[0] + 1, `at` ascends.
template <int L, class T>
[[gnu::always_inline]] inline void gather(const T* from, int64_t from_sample, const int64_t* at,
                                          int64_t size, int64_t samples, T* to, int64_t to_sample) {
  if (from_sample == 1 && samples == L && size >= L) {
    for (int64_t first = 0; first < size; first += L) {
      const int64_t i = std::min(first, size - L);  // the last block overlaps the previous one
      Lanes<T, L> rows[L];
#pragma GCC unroll 16
      for (int k = 0; k < L; ++k) rows[k] = load<L>(from + at[i + k]);
      transpose<T, L>(rows);
#pragma GCC unroll 16
      for (int n = 0; n < L; ++n) store<L>(to + n * to_sample + i, rows[n]);
    }
  } else if (size == 1 || (at[1] == at[0] + 1 && at[size - 1] == at[0] + size - 1)) {
    // The elements are contiguous.
    for (int64_t n = 0; n < samples; ++n)
      std::copy_n(from + n * from_sample + at[0], size, to + n * to_sample);
  } else {
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t i = 0; i < size; ++i) to[n * to_sample + i] = from[n * from_sample + at[i]];
  }
}

// Inverse of gather: to[n * to_sample + at[i]] = from[n * from_sample + i].
template <int L, class T>
[[gnu::always_inline]] inline void scatter(const T* from, int64_t from_sample, int64_t size,
                                           int64_t samples, T* to, int64_t to_sample,
                                           const int64_t* at) {
  if (to_sample == 1 && samples == L && size >= L) {
    for (int64_t first = 0; first < size; first += L) {
      const int64_t i = std::min(first, size - L);
      Lanes<T, L> rows[L];
#pragma GCC unroll 16
      for (int n = 0; n < L; ++n) rows[n] = load<L>(from + n * from_sample + i);
      transpose<T, L>(rows);
#pragma GCC unroll 16
      for (int k = 0; k < L; ++k) store<L>(to + at[i + k], rows[k]);
    }
  } else {
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t i = 0; i < size; ++i) to[n * to_sample + at[i]] = from[n * from_sample + i];
  }
}

}  // namespace bellows
