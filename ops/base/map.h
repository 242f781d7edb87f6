// y_i = fn(x_i, ...) on the CPU, over operands of any strides: the loops of all elementwise
// kernels.
//
// A formula is compiled into few loops, because each costs compile time: for a type and an
// instruction set, one over dense operands, and one for each operand that may be constant within a
// row. A loop takes rows x n elements, so a broadcast needs one call, not one per row. Operands of
// other strides are packed into tiles that the dense loop takes (ops/base/map.cpp).
#pragma once
#include <immintrin.h>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/base/lanes.h"
#include "ops/base/maths.h"

namespace bellows {

inline constexpr int64_t kMapChunk = 16384;  // elements per chunk: enough to wake a thread

inline constexpr size_t kLargeBytes = 2 << 20;  // more than a core's second-level cache

// Returns the smallest output, in bytes, whose stores bypass the caches: half of the last-level
// cache, at least 16 MiB. An ordinary store first reads the line that it overwrites, and of a large
// output little is cached when the next op reads it.
size_t streamed_bytes();

// Runs loop(), compiled for this CPU's widest vectors of Acc<T>. Everything it calls must be
// inlined.
template <class T, class Loop> void in_wide_loop(const Loop& loop) {
  in_lanes<Acc<T>>([&]<int L>() __attribute__((always_inline)) { loop(); });
}

// An operand with one value for all elements of a row.
template <class T> struct Constant {
  Acc<T> value;
  FORMULA Acc<T> operator[](int64_t) const { return value; }
};

// Returns the elements i and i + 1 of an operand: the lower and the upper half of a word.
FORMULA uint32_t word_at(const Bf16* x, int64_t i) {
  uint32_t both;
  std::memcpy(&both, &x[i].bits, sizeof both);
  return both;
}
FORMULA float lower(const Bf16* x, int64_t i) { return std::bit_cast<float>(word_at(x, i) << 16); }
FORMULA float upper(const Bf16* x, int64_t i) {
  return std::bit_cast<float>(word_at(x, i) & 0xffff0000);
}
FORMULA float lower(Constant<Bf16> x, int64_t) { return x.value; }
FORMULA float upper(Constant<Bf16> x, int64_t) { return x.value; }

// Returns a result as it is stored: rounded, unless fn declares that rounding is not needed.
template <class T, class Fn> FORMULA T stored(Acc<T> value) {
  if constexpr (std::is_same_v<T, Bf16> && requires { requires Fn::exact; })
    return Bf16::exact(value);
  else
    return T(value);
}

// y[i] = fn(x[i]...) for i < n. Each operand is a pointer, which may be y, or a Constant. The
// pragma states that y overlaps no other operand; GCC would compile a second loop for that case.
//
// Bf16 go in pairs, as words: their upper and lower halves are widened and narrowed in place, while
// a vector of 16-bit lanes would have to be unpacked and packed, 1.2 to 1.8 times slower.
template <class T, class Fn, class... X>
[[gnu::always_inline]] inline void map_dense(T* y, int64_t n, const Fn& fn, X... x) {
  if constexpr (std::is_same_v<T, Bf16>) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n - 1; i += 2) {
      const Bf16 low = stored<T, Fn>(fn(lower(x, i)...)), high = stored<T, Fn>(fn(upper(x, i)...));
      const uint32_t both = low.bits | uint32_t(high.bits) << 16;
      std::memcpy(&y[i].bits, &both, sizeof both);
    }
    if (n % 2) y[n - 1] = stored<T, Fn>(fn(Acc<T>(x[n - 1])...));
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = stored<T, Fn>(fn(Acc<T>(x[i])...));
  }
}

// Ways in which a loop reaches memory.
enum class Access {
  cached,      // the operands fit into the second-level cache
  prefetched,  // operands are larger: the loop prefetches rows of its only operand
  streamed,    // stores bypass the caches; the rows of y are blocks and aligned to 32 bytes
};

// Elements of a row that is prefetched or streamed.
template <class T> inline constexpr int64_t kMapBlock = 1024 / sizeof(T);

// rows x n elements of y and of up to three operands. Rows of y are y_row elements apart, those of
// x[k] x_row[k]. The elements of a row are contiguous, but for an operand that is constant.
template <class T> struct Rows {
  T* y = nullptr;
  std::array<const T*, 3> x{};
  int64_t rows = 1, n = 0, y_row = 0;
  std::array<int64_t, 3> x_row{};
  Access access = Access::cached;
};

// Copies a block past the caches, because GCC has no such store for loops that it vectorizes. Both
// addresses are multiples of 32.
void stream_out(void* to, const void* block, size_t bytes);

// A loop compiled for one function object, which `fn` points to.
template <class T> using Loop = void (*)(const void* fn, const Rows<T>& rows);

// Operand `constant`, if that is not negative, has one value in each row.
template <class T, class Fn, int constant, size_t... k>
void map_rows(const void* fn_, const Rows<T>& rows_) {
  in_wide_loop<T>([&]() __attribute__((always_inline)) {
    const Fn fn = *static_cast<const Fn*>(fn_);
    const Rows<T> r = rows_;
    const auto operand = [](auto is_constant, const T* x) __attribute__((always_inline)) {
      if constexpr (is_constant)
        return Constant<T>{Acc<T>(*x)};
      else
        return x;
    };
    alignas(64) std::array<std::byte, kMapBlock<T> * sizeof(T)> block;  // an array of T is cleared
    for (int64_t row = 0; row < r.rows; ++row) {
      T* const y = r.y + row * r.y_row;
      const bool streamed = constant < 0 && r.access == Access::streamed;
      if constexpr (sizeof...(k) == 1)
        if (r.access == Access::prefetched)
          for (int64_t i = 0; i < r.n; i += 64 / sizeof(T))
            __builtin_prefetch(r.x[0] + (row + 1) * r.x_row[0] + i);
      map_dense(streamed ? reinterpret_cast<T*>(block.data()) : y, r.n, fn,
                operand(std::bool_constant<k == constant>(), r.x[k] + row * r.x_row[k])...);
      if (streamed) stream_out(y, block.data(), sizeof block);
    }
  });
}

// The loops of one function object for a type. constant[k] may be null.
template <class T> struct LoopsOf {
  Loop<T> dense;
  std::array<Loop<T>, 3> constant{};
};

// The loops of one function object. F16 has none: tiles of it are converted to float.
struct Loops {
  LoopsOf<float> f32;
  LoopsOf<Bf16> bf16;
  LoopsOf<double> f64;
};

// Returns the loop with a constant operand, or null if Fn does not request it.
template <class T, class Fn, int constant, size_t... k> constexpr Loop<T> loop_with() {
  if constexpr (requires { Fn::constants; })
    if constexpr ((Fn::constants >> constant & 1) == 1) return map_rows<T, Fn, constant, k...>;
  return nullptr;
}
template <class T, class Fn, size_t... k>
constexpr LoopsOf<T> make_loops(std::index_sequence<k...>) {
  return {map_rows<T, Fn, -1, k...>, {loop_with<T, Fn, k, k...>()...}};
}
template <class Fn, size_t N, class All = std::make_index_sequence<N>>
inline constexpr Loops kLoops{make_loops<float, Fn>(All()), make_loops<Bf16, Fn>(All()),
                              make_loops<double, Fn>(All())};

// y = fn(x...) with the loops of *fn. All tensors have one shape and one float dtype, and y is
// dense.
void map_into(const Tensor& y, std::span<const Tensor* const> x, const void* fn,
              const Loops& loops);

// As above, for any function object that takes and returns float or double.
template <size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  map_into(y, x, &fn, kLoops<Fn, N>);
}

// Returns the loops of Apply<F>, F being functors::Steps[step], or of ApplyAffine
// (ops/base/apply.h). ops/elementwise.cpp defines it, which is the one file that compiles them.
const Loops& loops_of_step(int step);

template <class T> void exp_in_place(T* x, int64_t n) {
  in_wide_loop<T>([&]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i]);
  });
}

}  // namespace bellows
