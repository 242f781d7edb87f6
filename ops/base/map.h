// y_i = fn(x_i, ...) on the CPU, over operands of any strides: the loop of all elementwise kernels.
#pragma once
#include <immintrin.h>
#include <unistd.h>
#include <array>
#include <cstring>
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

// Copies a block past the caches, because GCC has no such store for loops that it vectorizes. Both
// addresses are multiples of 32.
template <class T, size_t n> void stream_out(T* to, const std::array<T, n>& block) {
  constexpr size_t kVector = sizeof(__m256i) / sizeof(T);
  for (size_t i = 0; i < n; i += kVector)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(&block[i])));
}

// How a loop over dense operands reaches memory.
enum class Access {
  cached,      // they fit into the second-level cache
  prefetched,  // they do not: each block requests the lines of the next one
  streamed,    // stores bypass the caches; y is aligned to 32 bytes
};

// Arithmetic on one vector takes so long that the CPU does not reach the loads of the next lines by
// itself. With more operands the hardware's own prefetching does as well as ours.
inline Access access_to(const Tensor& y, size_t operands) {
  if (y.nbytes() >= streamed_bytes() && uintptr_t(y.bytes()) % 32 == 0) return Access::streamed;
  return operands == 1 && y.nbytes() >= kLargeBytes ? Access::prefetched : Access::cached;
}

// Maps n elements of dense operands.
template <class T, class Fn, class... X>
[[gnu::always_inline]] inline void map_blocks(T* y, int64_t n, Access access, const Fn& fn,
                                              const X*... x) {
  constexpr int64_t kBlock = 1024 / sizeof(T), kLine = 64 / sizeof(T);
  alignas(32) std::array<T, kBlock> block;
  const int64_t step = access == Access::cached ? n : kBlock;
  for (int64_t i = 0; i < n; i += step) {
    const int64_t size = std::min(step, n - i);
    if (access == Access::prefetched)
      for (int64_t j = i + step; j < std::min(n, i + 2 * step); j += kLine)
        (__builtin_prefetch(x + j), ...);
    const bool streamed = access == Access::streamed && size == kBlock;
    map_dense(streamed ? block.data() : y + i, size, fn, (x + i)...);
    if (streamed) stream_out(y + i, block);
  }
  if (access == Access::streamed) _mm_sfence();  // before another thread reads y
}

template <class T> void exp_in_place(T* x, int64_t n) {
  in_wide_loop<T>([&]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i]);
  });
}

// Maps one row of n elements. Vectorized for unit strides, also if one operand but dy is constant.
template <class T, size_t N, class Fn, size_t... k>
void map_row(T* y, const std::array<const T*, N>& x, const std::array<int64_t, N + 1>& steps,
             int64_t n, const Fn& fn, std::index_sequence<k...>) {
  using Steps = std::array<int64_t, N + 1>;
  if (((steps[k + 1] == 1) && ... && (steps[0] == 1))) return map_dense(y, n, fn, x[k]...);
  if constexpr (N == 2) {
    if (steps == Steps{1, 1, 0})
      return map_dense(
          y, n, [&fn, b = Acc<T>(*x[1])](Acc<T> a) { return fn(a, b); }, x[0]);
    if (steps == Steps{1, 0, 1})
      return map_dense(
          y, n, [&fn, a = Acc<T>(*x[0])](Acc<T> b) { return fn(a, b); }, x[1]);
  }
  if constexpr (N == 3) {
    if (steps == Steps{1, 1, 1, 0})
      return map_dense(
          y, n, [&fn, b = Acc<T>(*x[2])](Acc<T> dy, Acc<T> a) { return fn(dy, a, b); }, x[0], x[1]);
    if (steps == Steps{1, 1, 0, 1})
      return map_dense(
          y, n, [&fn, a = Acc<T>(*x[1])](Acc<T> dy, Acc<T> b) { return fn(dy, a, b); }, x[0], x[2]);
  }
  for (int64_t i = 0; i < n; ++i) y[i * steps[0]] = T(fn(Acc<T>(x[k][i * steps[k + 1]])...));
}

// y = fn(x...) for tensors of one shape and dtype T. fn takes and returns Acc<T>.
template <class T, size_t N, class Fn>
void map_into(const Tensor& y, const Tensor* const (&x)[N], const Fn& fn) {
  if (y.numel() == 0) return;
  T* const y_ = y.ptr<T>();
  const auto each = [&]<size_t... k>(std::index_sequence<k...> all) {
    const std::array<const T*, N> x_{x[k]->template ptr<T>()...};
    if (((x[k]->strides() == y.strides()) && ...) && y.is_dense()) {
      const Access access = access_to(y, N);
      return parallel_for(y.numel(), kMapChunk, [&](int64_t b, int64_t e) {
        in_wide_loop<T>([&]() __attribute__((always_inline)) {
          map_blocks(y_ + b, e - b, access, fn, (x_[k] + b)...);
        });
      });
    }
    const Walk<N + 1> walk(y.shape(), {&y.strides(), &x[k]->strides()...});
    if (walk.rows == 1)  // for example a tensor and a scalar
      return parallel_for(walk.length, kMapChunk, [&](int64_t b, int64_t e) {
        map_row<T, N>(y_ + b * walk.steps[0], {(x_[k] + b * walk.steps[k + 1])...}, walk.steps,
                      e - b, fn, all);
      });
    const int64_t chunk = std::max<int64_t>(kMapChunk / walk.length, 1);
    parallel_for(walk.rows, chunk, [&](int64_t b, int64_t e) {
      walk.for_rows(b, e, [&](const auto& at) {
        map_row<T, N>(y_ + at[0], {(x_[k] + at[k + 1])...}, walk.steps, walk.length, fn, all);
      });
    });
  };
  each(std::make_index_sequence<N>());
}

}  // namespace bellows
