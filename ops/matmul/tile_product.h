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

// c (rows, columns) = a (rows, depth) b (depth, columns), or c += a b. T is float or double, and
// columns is a multiple of lane_count<T>(). Each sum runs over the depth in order, for any sizes.
template <class T>
void multiply(Steps<const T> a, Steps<const T> b, Steps<T> c, int64_t rows, int64_t depth,
              int64_t columns, bool add = false);

}  // namespace bellows
