#include "ops/base/map.h"
#include <unistd.h>
#include <algorithm>
#include "core/device/parallel.h"
#include "core/tensor/walk.h"

namespace bellows {

size_t streamed_bytes() {
  static const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1: unknown
  return std::max<size_t>(16 << 20, cache > 0 ? cache / 2 : 0);
}

void stream_out(void* to_, const void* block_, size_t bytes) {
  auto* const to = static_cast<__m256i*>(to_);
  const auto* const block = static_cast<const __m256i*>(block_);
  for (size_t i = 0; i < bytes / sizeof(__m256i); ++i)
    _mm256_stream_si256(to + i, _mm256_load_si256(block + i));
}

namespace {

constexpr int64_t kTile = 512;  // elements; the tiles of three operands fit into the L1 cache

// Arithmetic on one vector takes so long that the CPU does not reach the loads of the next lines by
// itself. With more operands the hardware's own prefetching does as well as ours.
Access access_to(const Tensor& y, size_t operands) {
  if (y.nbytes() < kLargeBytes) return Access::cached;
  if (y.nbytes() >= streamed_bytes() && uintptr_t(y.bytes()) % 32 == 0) return Access::streamed;
  return operands == 1 ? Access::prefetched : Access::cached;
}

// to[i] = from[i] for i < n, converted.
template <class To, class From> void convert_row(To* to, const From* from, int64_t n) {
  in_lanes<Acc<From>>([&]<int L>() __attribute__((always_inline)) {
    along<L>(
        n, [&]<int l>(int64_t i)
               __attribute__((always_inline)) { store<l>(to + i, load<l>(from + i)); });
  });
}

// Packs rows x n elements, converted to the type that the loops compute in.
template <class L, class T>
void pack(L* to, const T* from, int64_t rows, int64_t row_step, int64_t n, int64_t step) {
  if (step == 1 && row_step == n) n *= rows, rows = 1;
  const L* const first = to;
  for (int64_t row = 0; row < rows; ++row, to += n, from += row_step) {
    if (step == 0)
      std::fill_n(to, n, convert<L>(*from));
    else if (row_step == 0 && row > 0)
      std::copy_n(first, n, to);
    else if (step == 1)
      convert_row(to, from, n);
    else
      for (int64_t i = 0; i < n; ++i) to[i] = convert<L>(from[i * step]);
  }
}

// One call of map_into. L: the type of the loops, which is float for F16.
template <class T, class L> struct Mapping {
  static constexpr bool kDirect = std::is_same_v<T, L>;
  using Steps = Walk<4>::Offsets;  // steps of y and of three operands; y replaces missing operands

  const void* fn;
  const LoopsOf<L>& loops;
  const int operands;
  T* const y;
  std::array<const T*, 3> x{y, y, y};

  // Elements [begin, end) of dense operands.
  void dense(int64_t begin, int64_t end, Access access) const {
    const bool blocks = kDirect && access != Access::cached;
    const int64_t rows = blocks ? (end - begin) / kMapBlock<T> : 1;
    const int64_t n = blocks ? kMapBlock<T> : end - begin;
    const Rows<T> r{y + begin, {x[0] + begin, x[1] + begin, x[2] + begin}, rows, n, n, {n, n, n},
                    access};
    if constexpr (kDirect)
      loops.dense(fn, r);
    else
      tiles(r, {1, 1, 1, 1});
    if (access == Access::streamed) _mm_sfence();  // orders the stores before other threads read y
    if (begin + rows * n < end) dense(begin + rows * n, end, Access::cached);
  }

  // Elements [first, first + n) of rows [begin, end). The rows along the last axis but one are
  // equally far apart, so that one call takes them.
  void strided(const Walk<4>& walk, int64_t begin, int64_t end, int64_t first, int64_t n) const {
    const int axis = walk.rank() - 2;
    const int64_t across = axis < 0 ? 1 : walk.size(axis);
    const auto [y_row, a_row, b_row, c_row] = axis < 0 ? Steps{} : walk.step(axis);
    const Loop<L> loop = loop_for(walk.steps);
    for (int64_t row = begin, rows; row < end; row += rows) {
      rows = std::min(end - row, across - row % across);
      Steps at{};
      walk.for_rows(row, row + 1, [&](const Steps& row_at) { at = row_at; });
      for (int t = 0; t < 4; ++t) at[t] += first * walk.steps[t];
      const Rows<T> r{y + at[0], {x[0] + at[1], x[1] + at[2], x[2] + at[3]},
                      rows,      n,
                      y_row,     {a_row, b_row, c_row}};
      if constexpr (kDirect)
        if (loop) {
          loop(fn, r);
          continue;
        }
      tiles(r, walk.steps);
    }
  }

  // Returns the loop over operands of these steps, or null.
  Loop<L> loop_for(const Steps& steps) const {
    Loop<L> loop = kDirect ? loops.dense : nullptr;
    for (int k = 0; k < operands && loop; ++k)
      if (steps[k + 1] != 1)
        loop = steps[k + 1] == 0 && loop == loops.dense ? loops.constant[k] : nullptr;
    return loop;
  }

  // Rows of any steps: packs tiles of the operands, and runs the dense loop over them. A tile is
  // several short rows or a part of a long one.
  [[gnu::noinline]] void tiles(const Rows<T>& r, const Steps& steps) const {
    alignas(64) std::array<std::array<L, kTile>, 4> tile;
    const int64_t most = std::max<int64_t>(kTile / r.n, 1);
    for (int64_t row = 0; row < r.rows; row += most)
      for (int64_t i = 0; i < r.n; i += kTile) {
        const int64_t rows = std::min(most, r.rows - row), n = std::min(kTile, r.n - i);
        Rows<L> packed{.y = tile[3].data(), .n = rows * n};
        for (int k = 0; k < operands; ++k) {
          const T* const from = r.x[k] + row * r.x_row[k] + i * steps[k + 1];
          packed.x[k] = tile[k].data();
          if constexpr (kDirect)
            if (steps[k + 1] == 1 && (rows == 1 || r.x_row[k] == n)) packed.x[k] = from;
          if (packed.x[k] == tile[k].data())
            pack(tile[k].data(), from, rows, r.x_row[k], n, steps[k + 1]);
        }
        T* const to = r.y + row * r.y_row + i;
        if constexpr (kDirect) packed.y = to;
        loops.dense(fn, packed);
        if constexpr (!kDirect) convert_row(to, packed.y, packed.n);
      }
  }
};

template <class T, class L>
void map_as(const Tensor& y, std::span<const Tensor* const> x, const void* fn,
            const LoopsOf<L>& loops) {
  Mapping<T, L> map{fn, loops, int(x.size()), y.ptr<T>()};
  bool same_order = true;
  std::array<const Strides*, 4> strides;
  strides.fill(&y.strides());
  for (int k = 0; k < map.operands; ++k) {
    map.x[k] = x[k]->ptr<T>();
    strides[k + 1] = &x[k]->strides();
    same_order = same_order && x[k]->strides() == y.strides();
  }
  if (same_order) {
    const Access access = access_to(y, x.size());
    return parallel_for(y.numel(), kMapChunk,
                        [&](int64_t b, int64_t e) { map.dense(b, e, access); });
  }
  const Walk<4> walk(y.shape(), strides);
  if (walk.rows == 1)  // as with a tensor and a scalar
    return parallel_for(walk.length, kMapChunk,
                        [&](int64_t b, int64_t e) { map.strided(walk, 0, 1, b, e - b); });
  const int64_t chunk = std::max<int64_t>(kMapChunk / walk.length, 1);
  parallel_for(walk.rows, chunk,
               [&](int64_t b, int64_t e) { map.strided(walk, b, e, 0, walk.length); });
}

}  // namespace

void map_into(const Tensor& y, std::span<const Tensor* const> x, const void* fn,
              const Loops& loops) {
  if (y.numel() == 0) return;
  INVARIANT(y.is_dense(), "map: y is not dense");
  visit_stored(y.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, double>) map_as<T>(y, x, fn, loops.f64);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, F16>)
      map_as<T>(y, x, fn, loops.f32);
    if constexpr (std::is_same_v<T, Bf16>) map_as<T>(y, x, fn, loops.bf16);
  });
}

}  // namespace bellows
