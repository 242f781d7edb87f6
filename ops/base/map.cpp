#include "ops/base/map.h"
#include <unistd.h>
#include <algorithm>
#include <optional>
#include <tuple>
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

// Elements of a tile. The tiles of three operands fit into the L1 cache.
constexpr int64_t kTile = 512;
// Rows and elements of a row of a tile that reads an operand down its columns.
constexpr int64_t kDown = 16, kAcross = 128;

// Arithmetic on one vector takes so long that the CPU does not reach the loads of the next lines by
// itself. With more operands the hardware's own prefetching does as well as ours.
Access access_to(const void* y, size_t bytes, int operands) {
  if (bytes < kLargeBytes) return Access::cached;
  if (bytes >= streamed_bytes() && uintptr_t(y) % 32 == 0) return Access::streamed;
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
  if (row_step < step && step > 1) {  // down the columns
    for (int64_t i = 0; i < n; ++i) {
      // The lines of the next tile below this one.
      for (int64_t row = 2 * rows - 1; row >= rows; row -= 64 / sizeof(T))
        __builtin_prefetch(from + row * row_step + i * step);
#pragma GCC unroll 8
      for (int64_t row = 0; row < rows; ++row)
        to[row * n + i] = convert<L>(from[row * row_step + i * step]);
    }
    return;
  }
  const int64_t all = rows * n;
  if (row_step == 0) rows = 1;
  for (int64_t row = 0; row < rows; ++row, from += row_step) {
    L* const to_row = to + row * n;
    if (step == 0)
      std::fill_n(to_row, n, convert<L>(*from));
    else if (step == 1)
      convert_row(to_row, from, n);
    else
      for (int64_t i = 0; i < n; ++i) to_row[i] = convert<L>(from[i * step]);
  }
  for (int64_t done = rows * n; done < all; done *= 2)
    std::copy_n(to, std::min(done, all - done), to + done);
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
    if constexpr (!kDirect) return converted(begin, end);
    const bool blocks = access != Access::cached;
    const int64_t rows = blocks ? (end - begin) / kMapBlock<T> : 1;
    const int64_t n = blocks ? kMapBlock<T> : end - begin;
    const Rows<T> r{y + begin, {x[0] + begin, x[1] + begin, x[2] + begin}, rows, n, n, {n, n, n},
                    access};
    if constexpr (kDirect) loops.dense(fn, r);
    if (access == Access::streamed) _mm_sfence();  // orders the stores before other threads read y
    if (begin + rows * n < end) dense(begin + rows * n, end, Access::cached);
  }

  // As dense(), by tiles that are converted to the type of the loops and back.
  void converted(int64_t begin, int64_t end) const {
    alignas(64) std::array<std::array<L, kTile>, 4> tile;
    for (int64_t i = begin; i < end; i += kTile) {
      Rows<L> packed{.y = tile[3].data(), .n = std::min(kTile, end - i)};
      for (int k = 0; k < operands; ++k) {
        const bool same = k > 0 && x[k] == x[k - 1];
        packed.x[k] = same ? packed.x[k - 1] : tile[k].data();
        if (!same) convert_row(tile[k].data(), x[k] + i, packed.n);
      }
      loops.dense(fn, packed);
      convert_row(y + i, packed.y, packed.n);
    }
  }

  // Elements [first, first + n) of rows [begin, end). The rows along the last axis but one are
  // equally far apart, so that one call takes them.
  void strided(const Walk<4>& walk, int64_t begin, int64_t end, int64_t first, int64_t n) const {
    const int axis = walk.rank() - 2;
    const int64_t across = walk.size(axis);
    const auto [y_row, a_row, b_row, c_row] = walk.step(axis);
    const std::array row_steps{a_row, b_row, c_row};
    for (int64_t row = begin, rows; row < end; row += rows) {
      rows = std::min(end - row, across - row % across);
      Steps at{};
      walk.for_rows(row, row + 1, [&](const Steps& row_at) { at = row_at; });
      for (int t = 0; t < 4; ++t) at[t] += first * walk.steps[t];
      run({y + at[0], {x[0] + at[1], x[1] + at[2], x[2] + at[3]}, rows, n, y_row, row_steps},
          walk.steps);
    }
  }

  // Returns the steps of a single row, if each operand has y's order or a single value.
  std::optional<Steps> flat_steps(const std::array<const Strides*, 4>& strides) const {
    Steps steps{1, 1, 1, 1};
    for (int k = 1; k <= operands; ++k) {
      if (*strides[k] == *strides[0]) continue;
      if (std::ranges::count(*strides[k], 0) != strides[k]->rank()) return {};
      steps[k] = 0;
    }
    return steps;
  }

  // Elements [begin, end) of a single row.
  void one_row(const Steps& steps, int64_t begin, int64_t end) const {
    const std::array at{x[0] + begin * steps[1], x[1] + begin * steps[2], x[2] + begin * steps[3]};
    run({y + begin, at, 1, end - begin}, steps);
  }

  // Rows of these steps, with their loop if there is one. Short rows are joined in tiles.
  void run(const Rows<T>& r, const Steps& steps) const {
    if constexpr (kDirect) {
      Loop<L> loop = loops.dense;
      for (int k = 0; k < operands && loop; ++k)
        if (steps[k + 1] != 1)
          loop = steps[k + 1] == 0 && loop == loops.dense ? loops.constant[k] : nullptr;
      const bool many = r.rows * r.n >= kTile || (sizeof(T) == 2 && r.rows > 1);
      const bool join = many && r.n * sizeof(T) < 96 && loop == loops.dense;
      if (loop && !join) return loop(fn, r);
    }
    tiles(r, steps);
  }

  // Returns whether elements of an operand are closer together down a column than along a row.
  bool goes_down(const int64_t* rows, const Steps& steps) const {
    for (int k = 0; k < operands; ++k)
      if (steps[k + 1] > 1 && rows[k] < steps[k + 1]) return true;
    return false;
  }

  // Rows of any steps: packs tiles of the operands that the dense loop cannot read, and runs it
  // over them. A tile is several whole rows, or a part of one, or of kDown.
  [[gnu::noinline]] void tiles(const Rows<T>& r, const Steps& steps) const {
    alignas(64) std::array<std::array<std::byte, kDown * kAcross * sizeof(L)>, 4> room;
    const auto tile = [&](int k) { return reinterpret_cast<L*>(room[k].data()); };
    const bool down = goes_down(r.x_row.data(), steps);
    const int64_t width = std::min(r.n, down ? kAcross : kTile);
    // Tiles of 16 rows begin at a cache line of y, if y does.
    const int64_t most = kTile / width, whole_lines = most < 16 ? most : most / 16 * 16;
    const int64_t height = std::min(r.rows, down ? kDown : whole_lines);
    const auto source = [&](int k) { return std::tuple(r.x[k], r.x_row[k], steps[k + 1]); };
    for (int64_t i = 0; i < r.n; i += width) {
      std::array<const T*, 3> packed_from{};
      for (int64_t row = 0; row < r.rows; row += height) {
        const int64_t rows = std::min(height, r.rows - row), n = std::min(width, r.n - i);
        T* const to = r.y + row * r.y_row + i;
        const bool joined = rows == 1 || r.y_row == n;
        Rows<L> packed{.y = tile(3), .rows = rows, .n = n, .y_row = n, .x_row = {n, n, n}};
        if constexpr (kDirect) packed.y = to, packed.y_row = r.y_row;
        for (int k = 0; k < operands; ++k) {
          if (k > 0 && source(k) == source(k - 1)) {  // the same operand again
            packed.x[k] = packed.x[k - 1], packed.x_row[k] = packed.x_row[k - 1];
            continue;
          }
          const T* const from = r.x[k] + row * r.x_row[k] + i * steps[k + 1];
          packed.x[k] = tile(k);
          if constexpr (kDirect)
            if (steps[k + 1] == 1 && (!joined || rows == 1 || r.x_row[k] == n)) {
              packed.x[k] = from, packed.x_row[k] = r.x_row[k];
              continue;
            }
          if (from != packed_from[k]) pack(tile(k), from, rows, r.x_row[k], n, steps[k + 1]);
          packed_from[k] = from;
        }
        if (!kDirect || joined) packed.n *= rows, packed.rows = 1;
        loops.dense(fn, packed);
        if constexpr (!kDirect)
          for (int64_t k = 0; k < rows; k += joined ? rows : 1)
            convert_row(to + k * r.y_row, packed.y + k * n, joined ? packed.n : n);
      }
    }
  }
};

template <class T, class L>
void map_as(const Tensor& y, std::span<const Tensor* const> x, const void* fn,
            const LoopsOf<L>& loops) {
  Mapping<T, L> map{fn, loops, int(x.size()), y.ptr<T>()};
  const int64_t n = y.numel();
  bool same_order = true;
  std::array<const Strides*, 4> strides;
  strides.fill(&y.strides());
  for (int k = 0; k < map.operands; ++k) {
    map.x[k] = x[k]->ptr<T>();
    strides[k + 1] = &x[k]->strides();
    same_order = same_order && x[k]->strides() == y.strides();
  }
  if (same_order) {
    const Access access = access_to(map.y, n * sizeof(T), map.operands);
    return parallel_for(n, kMapChunk, [&](int64_t b, int64_t e) { map.dense(b, e, access); });
  }
  if (const auto steps = map.flat_steps(strides))  // saves the walk
    return parallel_for(n, kMapChunk, [&](int64_t b, int64_t e) { map.one_row(*steps, b, e); });
  const Walk<4> walk(y.shape(), strides);
  if (walk.rows == 1)
    return parallel_for(walk.length, kMapChunk,
                        [&](int64_t b, int64_t e) { map.one_row(walk.steps, b, e); });
  const int64_t rows = walk.rows, length = walk.length;
  if (map.goes_down(&walk.step(walk.rank() - 2)[1], walk.steps) && length > kMapChunk / kDown)
    return parallel_for(length, std::max(kMapChunk / rows, kAcross),
                        [&](int64_t b, int64_t e) { map.strided(walk, 0, rows, b, e - b); });
  parallel_for(rows, std::max<int64_t>(kMapChunk / length, 1),
               [&](int64_t b, int64_t e) { map.strided(walk, b, e, 0, length); });
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
