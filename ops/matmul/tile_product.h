// Small matrix products on SIMD vectors. A tile of c stays in registers for the whole depth.
#pragma once
#include "ops/base/lanes.h"

namespace bellows {

inline constexpr int kTileRows = 6, kTileVectors = 4;  // with AVX-512: 24 of 32 registers
// Columns of a tile: 4 vectors, or 2 with AVX2, which has 16 registers.
template <int L> inline constexpr int kTileColumns = L*(L == 16 ? kTileVectors : 2);
template <class T> int tile_columns() {
  return lane_count<T>() == 16 ? kTileColumns<16> : kTileColumns<32 / sizeof(T)>;
}

// A matrix with any strides. `column` must be 1 if it is read or written in vectors.
template <class T> struct Steps {
  T* at;
  int64_t row, column = 1;
};

// c (R, V L) = or += a (R, depth) b (depth, V L).
template <int L, int R, int V, class T>
[[gnu::always_inline]] inline void register_tile(Steps<const T> a, Steps<const T> b, Steps<T> c,
                                                 int64_t depth, bool add) {
  Lanes<T, L> sums[R][V] = {};
  if (add)
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sums[i][j] = load<L>(c.at + i * c.row + j * L);
  for (int64_t d = 0; d < depth; ++d) {
    Lanes<T, L> right[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) right[j] = load<L>(b.at + d * b.row + j * L);
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i) {
      const T left = a.at[i * a.row + d * a.column];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sums[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store<L>(c.at + i * c.row + j * L, sums[i][j]);
}

template <int L, int R, class T>
[[gnu::always_inline]] inline void row_of_tiles(Steps<const T> a, Steps<const T> b, Steps<T> c,
                                                int64_t depth, int64_t columns, bool add) {
  constexpr int V = kTileColumns<L> / L;
  int64_t j = 0;
  const auto tile = [&]<int width>(std::integral_constant<int, width>)
      __attribute__((always_inline)) {
    register_tile<L, R, width, T>(a, {b.at + j, b.row}, {c.at + j, c.row}, depth, add);
    j += width * L;
  };
  while (j + V * L <= columns) tile(std::integral_constant<int, V>());
  while (j < columns) tile(std::integral_constant<int, 1>());
}

// c (rows, columns) = a (rows, depth) b (depth, columns), or c += a b. columns is a multiple of L.
// Each sum runs over the depth in order, for any sizes.
template <int L, class T>
[[gnu::always_inline]] inline void multiply(Steps<const T> a, Steps<const T> b, Steps<T> c,
                                            int64_t rows, int64_t depth, int64_t columns,
                                            bool add = false) {
  int64_t i = 0;
  const auto row = [&]<int R>(std::integral_constant<int, R>) __attribute__((always_inline)) {
    row_of_tiles<L, R, T>({a.at + i * a.row, a.row, a.column}, b, {c.at + i * c.row, c.row}, depth,
                          columns, add);
    i += R;
  };
  while (i + kTileRows <= rows) row(std::integral_constant<int, kTileRows>());
  while (i + 3 <= rows) row(std::integral_constant<int, 3>());
  while (i < rows) row(std::integral_constant<int, 1>());
}

}  // namespace bellows
