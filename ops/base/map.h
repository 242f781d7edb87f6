// y_i = fn(x_i, ...) on the CPU, over operands of any strides: the loop of all elementwise kernels.
#pragma once
#include <immintrin.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>
#include "core/base/dtype.h"
#include "core/device/parallel.h"
#include "core/tensor/walk.h"
#include "ops/base/lanes.h"
#include "ops/base/maths.h"

namespace bellows {

inline constexpr int64_t kMapChunk = 16384;  // elements per chunk: enough to wake a thread

inline constexpr size_t kLargeBytes = 2 << 20;  // not in a core's second-level cache

// Smallest output, in bytes, whose stores bypass the caches: half of the last one, at least 16 MiB.
// An ordinary store first reads the line that it overwrites, and of a large output little is cached
// when the next op reads it.
inline size_t streamed_bytes() {
  static const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1: unknown
  return std::max<size_t>(16 << 20, cache > 0 ? cache / 2 : 0);
}

// Runs loop(), compiled for this CPU's widest vectors of Acc<T>. Everything it calls must be
// inlined.
template <class T, class Loop> void in_wide_loop(const Loop& loop) {
  in_lanes<Acc<T>>([&]<int L>() __attribute__((always_inline)) { loop(); });
}

// Takes the Bf16 in pairs, as words: their upper and lower halves are widened and narrowed in
// place, while a vector of 16-bit lanes would have to be unpacked and packed, 1.2 to 1.8 times
// slower.
template <class Fn, class... X>
[[gnu::always_inline]] inline void map_pairs(Bf16* y, int64_t pairs, const Fn& fn, const X*... x) {
  const auto word = [](const Bf16* from) __attribute__((always_inline)) {
    uint32_t both;
    std::memcpy(&both, &from->bits, sizeof both);
    return both;
  };
  for (int64_t i = 0; i < 2 * pairs; i += 2) {
    const Bf16 low(fn(std::bit_cast<float>(word(x + i) << 16)...));
    const Bf16 high(fn(std::bit_cast<float>(word(x + i) & 0xffff0000)...));
    const uint32_t both = low.bits | uint32_t(high.bits) << 16;
    std::memcpy(&y[i].bits, &both, sizeof both);
  }
}

template <class T, class Fn, class... X>
[[gnu::always_inline]] inline void map_dense(T* y, int64_t n, const Fn& fn, const X*... x) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, Bf16> && (std::is_same_v<X, Bf16> && ...)) {
    i = n / 2 * 2;
    map_pairs(y, n / 2, fn, x...);
  }
  for (; i < n; ++i) y[i] = T(fn(Acc<X>(x[i])...));
}

// The loop of one op and dtype over dense operands: y[i] = fn(x[0][i], ...) for n elements. Only
// this is compiled for every op, dtype and width of vectors; all else here serves every op.
template <class T, size_t N>
using DenseMap = std::function<void(T* y, int64_t n, const std::array<const T*, N>& x)>;

template <class T> inline constexpr int64_t kMapBlock = 2048 / sizeof(T);

// Copies n elements past the caches; `to` is aligned to 32 bytes.
template <class T> void stream_out(T* to, const T* from, int64_t n) {
  constexpr int64_t kVector = sizeof(__m256i) / sizeof(T);
  int64_t i = 0;
  for (; i + kVector <= n; i += kVector)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i)));
  std::copy(from + i, from + n, to + i);
}

// Maps n elements with stores that bypass the caches. A block is computed in the first-level cache,
// because GCC has no such store for loops that it vectorizes. y must be aligned to 32 bytes.
template <class T, size_t N>
void map_streamed(T* y, int64_t n, std::array<const T*, N> x, const DenseMap<T, N>& map) {
  alignas(32) std::array<T, kMapBlock<T>> block;
  for (int64_t i = 0; i < n; i += kMapBlock<T>) {
    const int64_t m = std::min(kMapBlock<T>, n - i);
    map(block.data(), m, x);
    stream_out(y + i, block.data(), m);
    for (const T*& from : x) from += m;
  }
  _mm_sfence();  // before another thread reads y
}

// Maps a tensor that is not in the second-level cache. Arithmetic on one vector takes so long that
// the CPU does not reach the loads of the next lines by itself, so these are requested a block
// ahead. With more operands the hardware's own prefetching does as well.
template <class T> void map_ahead(T* y, int64_t n, const T* x, const DenseMap<T, 1>& map) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < n; i += kMapBlock<T>) {
    const int64_t end = std::min(n, i + kMapBlock<T>);
    for (int64_t j = end; j < std::min(n, end + kMapBlock<T>); j += kLine)
      __builtin_prefetch(x + j);
    map(y + i, end - i, {x + i});
  }
}

template <class T> void exp_in_place(T* x, int64_t n) {
  in_wide_loop<T>([&]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i]);
  });
}

// Maps one row of n elements. Operands whose elements are not adjacent go through blocks.
template <class T, size_t N>
void map_row(T* y, const std::array<const T*, N>& x, const std::array<int64_t, N + 1>& steps,
             int64_t n, const DenseMap<T, N>& map) {
  if (std::ranges::all_of(steps, [](int64_t step) { return step == 1; })) return map(y, n, x);
  std::array<std::array<T, kMapBlock<T>>, N + 1> blocks;  // of y, of each x
  for (int64_t i = 0; i < n; i += kMapBlock<T>) {
    const int64_t m = std::min(kMapBlock<T>, n - i);
    std::array<const T*, N> from;
    for (size_t k = 0; k < N; ++k) {
      const int64_t step = steps[k + 1];
      const T* const first = x[k] + i * step;
      T* const block = blocks[k + 1].data();
      from[k] = step == 1 ? first : block;
      if (step == 0) std::fill_n(block, m, *first);
      if (step != 0 && step != 1)
        for (int64_t j = 0; j < m; ++j) block[j] = first[j * step];
    }
    if (steps[0] == 1) {
      map(y + i, m, from);
    } else {
      map(blocks[0].data(), m, from);
      for (int64_t j = 0; j < m; ++j) y[(i + j) * steps[0]] = blocks[0][j];
    }
  }
}

template <class T, size_t N>
void map_tensors(const Tensor& y, const Tensor* const (&x)[N], const DenseMap<T, N>& map) {
  T* const y_ = y.ptr<T>();
  const auto from = [&](const auto& offset_of) {
    std::array<const T*, N> at;
    for (size_t k = 0; k < N; ++k) at[k] = x[k]->template ptr<T>() + offset_of(k);
    return at;
  };
  const bool alike = std::ranges::all_of(
      x, [&](const Tensor* operand) { return operand->strides() == y.strides(); });
  if (alike && y.is_dense()) {
    const bool large = y.nbytes() >= kLargeBytes;
    const bool streamed = y.nbytes() >= streamed_bytes() && uintptr_t(y_) % 32 == 0;
    return parallel_for(y.numel(), kMapChunk, [&](int64_t b, int64_t e) {
      const auto at = from([b](size_t) { return b; });
      if (streamed) return map_streamed(y_ + b, e - b, at, map);
      if constexpr (N == 1)
        if (large) return map_ahead(y_ + b, e - b, at[0], map);
      map(y_ + b, e - b, at);
    });
  }
  std::array<const Strides*, N + 1> strides{&y.strides()};
  for (size_t k = 0; k < N; ++k) strides[k + 1] = &x[k]->strides();
  const Walk<N + 1> walk(y.shape(), strides);
  const int64_t chunk = std::max<int64_t>(kMapChunk / walk.length, 1);
  parallel_for(walk.rows, chunk, [&](int64_t b, int64_t e) {
    walk.for_rows(b, e, [&](const auto& at) {
      map_row<T, N>(y_ + at[0], from([&](size_t k) { return at[k + 1]; }), walk.steps, walk.length,
                    map);
    });
  });
}

// y = fn(x...) for tensors of one shape and dtype T. fn takes and returns Acc<T>.
template <class T, size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  if (y.numel() == 0) return;
  map_tensors<T, N>(y, x, [&fn](T* to, int64_t n, const std::array<const T*, N>& from) {
    in_wide_loop<T>([&]() __attribute__((always_inline)) {
      [&]<size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
        map_dense(to, n, fn, from[k]...);
      }
      (std::make_index_sequence<N>());
    });
  });
}

}  // namespace bellows
