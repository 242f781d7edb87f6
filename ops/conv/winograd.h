// Winograd's F(4x4, 3x3), from Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks":
// computes 16 output pixels of a 3x3 convolution with 36 products where the formula needs 144.
//   y = A^T [ (G w G^T) * (B^T x B) ] A, for 6x6 tiles of x that overlap by two pixels.
// For each of the 36 positions, all tiles and channels form one matrix product. The gradient of the
// weights is  dw = G^T [ sum of (A dy A^T) * (B^T x B) ] G.
#pragma once
#include "core/base/round.h"
#include "core/tensor/shape.h"
#include "ops/base/lanes.h"
#include "ops/conv/conv2d.h"

namespace bellows::winograd {

inline constexpr int kOut = 4, kIn = 6, kPositions = kIn * kIn;

// One-dimensional transforms. line(x, s, y, t) maps `from` values x[0], x[s], ... to `to` values
// y[0], y[t], ... Each value is a vector of channels.
struct ImageToTile {  // B^T
  static constexpr int from = kIn, to = kIn;
  template <class V> [[gnu::always_inline]] static void line(const V* x, int s, V* y, int t) {
    const V even = x[4 * s] - 4 * x[2 * s], odd = x[3 * s] - 4 * x[s];
    const V outer = x[4 * s] - x[2 * s], inner = 2 * (x[3 * s] - x[s]);
    y[0] = 4 * x[0] - 5 * x[2 * s] + x[4 * s];
    y[t] = even + odd;
    y[2 * t] = even - odd;
    y[3 * t] = outer + inner;
    y[4 * t] = outer - inner;
    y[5 * t] = 4 * x[s] - 5 * x[3 * s] + x[5 * s];
  }
};
struct FilterToTile {  // G
  static constexpr int from = 3, to = kIn;
  template <class V> [[gnu::always_inline]] static void line(const V* x, int s, V* y, int t) {
    using T = std::remove_cvref_t<decltype(x[0][0])>;
    const V even = (x[0] + x[2 * s]) * T(-1. / 6), odd = x[s] * T(1. / 6);
    const V far = x[0] * T(1. / 24) + x[2 * s] * T(1. / 6), middle = x[s] * T(1. / 12);
    y[0] = x[0] * T(.25);
    y[t] = even - odd;
    y[2 * t] = even + odd;
    y[3 * t] = far + middle;
    y[4 * t] = far - middle;
    y[5 * t] = x[2 * s];
  }
};
struct TileToImage {  // A^T
  static constexpr int from = kIn, to = kOut;
  template <class V> [[gnu::always_inline]] static void line(const V* x, int s, V* y, int t) {
    const V sum1 = x[s] + x[2 * s], difference1 = x[s] - x[2 * s];
    const V sum2 = x[3 * s] + x[4 * s], difference2 = x[3 * s] - x[4 * s];
    y[0] = x[0] + sum1 + sum2;
    y[t] = difference1 + 2 * difference2;
    y[2 * t] = sum1 + 4 * sum2;
    y[3 * t] = difference1 + 8 * difference2 + x[5 * s];
  }
};
struct GradientToTile {  // A
  static constexpr int from = kOut, to = kIn;
  template <class V> [[gnu::always_inline]] static void line(const V* x, int s, V* y, int t) {
    const V even1 = x[0] + x[2 * s], odd1 = x[s] + x[3 * s];
    const V even2 = x[0] + 4 * x[2 * s], odd2 = 2 * x[s] + 8 * x[3 * s];
    y[0] = x[0];
    y[t] = even1 + odd1;
    y[2 * t] = even1 - odd1;
    y[3 * t] = even2 + odd2;
    y[4 * t] = even2 - odd2;
    y[5 * t] = x[3 * s];
  }
};
struct TileToFilter {  // G^T
  static constexpr int from = kIn, to = 3;
  template <class V> [[gnu::always_inline]] static void line(const V* x, int s, V* y, int t) {
    using T = std::remove_cvref_t<decltype(x[0][0])>;
    const V sum1 = (x[s] + x[2 * s]) * T(1. / 6), difference1 = (x[2 * s] - x[s]) * T(1. / 6);
    const V sum2 = x[3 * s] + x[4 * s], difference2 = x[3 * s] - x[4 * s];
    y[0] = x[0] * T(.25) - sum1 + sum2 * T(1. / 24);
    y[t] = difference1 + difference2 * T(1. / 12);
    y[2 * t] = sum2 * T(1. / 6) - sum1 + x[5 * s];
  }
};

// Applies M along both axes: M x M^T of x (from, from). get(i) returns element i of x; put(p, v)
// receives element p of the result (to, to).
template <class M, class V, class Get, class Put>
[[gnu::always_inline]] inline void both(const Get& get, const Put& put) {
  V half[M::to * M::from];
#pragma GCC unroll 6
  for (int j = 0; j < M::from; ++j) {
    V column[M::from];
#pragma GCC unroll 6
    for (int i = 0; i < M::from; ++i) column[i] = get(i * M::from + j);
    M::line(column, 1, half + j, M::from);
  }
#pragma GCC unroll 6
  for (int i = 0; i < M::to; ++i) {
    V row[M::to];
    M::line(half + i * M::from, 1, row, 1);
#pragma GCC unroll 6
    for (int j = 0; j < M::to; ++j) put(i * M::to + j, row[j]);
  }
}

// The tiles of a batch, image by image. x and y are in NHWC.
class Tiles {
 public:
  Tiles(const Shape& x, const Shape& y, int64_t padding)
      : x_(x),
        y_(y),
        padding_(padding),
        down_(ceil_div(y[2], kOut)),
        across_(ceil_div(y[3], kOut)) {}
  int64_t count() const { return x_[0] * down_ * across_; }

  // Fills `at` with pointers to the pixels of tile t; `beyond` stands for those outside the image.
  template <class S> void of_x(int64_t t, S* x, S* beyond, S* (&at)[kIn * kIn]) const {
    window<kIn>(x_, t, -padding_, x, beyond, at);
  }
  template <class S> void of_y(int64_t t, S* y, S* beyond, S* (&at)[kOut * kOut]) const {
    window<kOut>(y_, t, 0, y, beyond, at);
  }

 private:
  template <int size, class S>
  void window(const Shape& s, int64_t t, int64_t shift, S* image, S* beyond, S** at) const {
    const int64_t n = t / (down_ * across_), rest = t % (down_ * across_);
    const int64_t top = rest / across_ * kOut + shift, left = rest % across_ * kOut + shift;
    for (int64_t i = top; i < top + size; ++i)
      for (int64_t j = left; j < left + size; ++j)
        *at++ = i >= 0 && i < s[2] && j >= 0 && j < s[3]
                    ? image + ((n * s[2] + i) * s[3] + j) * s[1]
                    : beyond;
  }

  Shape x_, y_;
  int64_t padding_, down_, across_;
};

// Loads up to L consecutive values; the remaining lanes are 0.
template <int L, class S>
[[gnu::always_inline]] inline Lanes<Acc<S>, L> load_some(const S* from, int64_t count) {
  if (count >= L) return load<L>(from);
  S some[L] = {};
  std::copy_n(from, count, some);
  return load<L>(some);
}
template <int L, class S>
[[gnu::always_inline]] inline void store_some(S* to, Lanes<Acc<S>, L> values, int64_t count) {
  if (count >= L) return store<L>(to, values);
  S some[L];
  store<L>(some, values);
  std::copy_n(some, count, to);
}

// One transformed matrix (rows, columns) per position, `step` elements apart. The 16 extra elements
// put the 36 cache lines that a tile is written to into different cache sets.
template <class T> struct Positions {
  Positions(T* at, int64_t rows, int64_t columns)
      : at(at), columns(columns), step(rows * columns + 16) {}
  static int64_t size(int64_t rows, int64_t columns) { return kPositions * (rows * columns + 16); }
  T* matrix(int position) const { return at + position * step; }
  T* at;
  int64_t columns, step;
};

// M x M^T for one tile, as row `row` of all matrices. pixels[i] points to `channels` values.
template <class M, int L, class S>
[[gnu::always_inline]] inline void transform(const S* const (&pixels)[M::from * M::from],
                                             int64_t channels, int64_t row,
                                             const Positions<Acc<S>>& to) {
  for (int64_t c = 0; c < channels; c += L) {
    Acc<S>* const at = to.at + row * to.columns + c;
    const auto with = [&](auto get) __attribute__((always_inline)) {
      both<M, Lanes<Acc<S>, L>>(
          get, [&](int p, auto v)
                   __attribute__((always_inline)) { store<L>(at + p * to.step, v); });
    };
    if (c + L <= channels)
      with([&](int i) __attribute__((always_inline)) { return load<L>(pixels[i] + c); });
    else
      with([&](int i) __attribute__((always_inline)) {
        return load_some<L>(pixels[i] + c, channels - c);
      });
  }
}

}  // namespace bellows::winograd
