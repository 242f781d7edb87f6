// Winograd's algorithm for 3x3 convolutions with stride 1: F(4x4, 3x3) of Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", CVPR 2016. It computes 16 output pixels with 36
// products where the formula needs 144.
//   y = A^T [ (G w G^T) * (B^T x B) ] A, for 6x6 tiles of x that overlap by two pixels.
// For each of the 36 positions, all tiles and channels form one matrix product. dx is the
// convolution of dy with w rotated, and dw = G^T [ sum of (A dy A^T) * (B^T x B) ] G.
//
// Images are in NHWC with the channels in vectors; 16-bit types are computed in f32.
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "ops/base/lanes.h"
#include "ops/base/per_thread.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/matmul/tile_product.h"

namespace bellows {

namespace {

// ---- transforms and tiles

constexpr int kOut = 4, kIn = 6, kPositions = kIn * kIn;

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

// ---- y and dx

constexpr int64_t kTiles = 48;   // maximum number of tiles that a thread computes at a time
constexpr int64_t kInputs = 16;  // input channels whose weights are transformed at a time

// Weights w (K, C, 3, 3) of a convolution from `in` to `out` channels. For dx they are rotated by
// 180 degrees (`rotated`) and map K channels to C.
struct Filters {
  Filters(const Tensor& w, bool rotated)
      : w(w), rotated(rotated), in(w.dim(rotated ? 0 : 1)), out(w.dim(rotated ? 1 : 0)) {}
  // Returns the first of the 9 taps from channel i to o. They are `tap` elements apart, and in
  // reverse order if rotated.
  template <class S> const S* taps(int64_t i, int64_t o) const {
    return w.ptr<S>() + (rotated ? i : o) * w.strides()[0] + (rotated ? o : i) * w.strides()[1];
  }
  // True if output channels are contiguous.
  bool outwards() const { return rotated && w.strides()[1] == 1; }
  Tensor w;
  bool rotated;
  int64_t in, out, tap = w.strides()[3];
};

// Transformed weights G w G^T: blocks of `width` output channels, each 36 matrices (in, width).
template <class S> struct Weights {
  using T = Acc<S>;
  explicit Weights(const Filters& filters)
      : filters(filters),
        width(tile_columns<T>()),
        blocks(ceil_div(filters.out, width)),
        memory({blocks * Positions<T>::size(filters.in, width)}, dtype_of<T>) {}
  Positions<T> block(int64_t b) const {
    const int64_t size = Positions<T>::size(filters.in, width);
    return {memory.template ptr<T>() + b * size, filters.in, width};
  }
  // Columns of block b in use: the last block is cut off after the last vector with a channel.
  template <int L> int64_t columns(int64_t b) const {
    return round_up(std::min(width, filters.out - b * width), L);
  }

  // Transforms the weights of input channels [first, first + count) of block b; count <= kInputs.
  // Taps are read in memory order, which avoids conflicts in the cache.
  template <int L>
  [[gnu::always_inline]] void transform(int64_t first, int64_t count, int64_t b) const {
    const Positions<T> to = block(b);
    for (int64_t j = 0; j < columns<L>(b); j += L) {
      T values[kInputs][9][L] = {};
      read<L>(first, count, b * width + j, values);
      for (int64_t i = 0; i < count; ++i) {
        T* const at = to.at + (first + i) * width + j;
        const auto tap = [&](int t) __attribute__((always_inline)) {
          return load<L>(values[i][filters.rotated ? 8 - t : t]);
        };
        both<FilterToTile, Lanes<T, L>>(
            tap, [&](int p, auto v)
                     __attribute__((always_inline)) { store<L>(at + p * to.step, v); });
      }
    }
  }

  // Reads the taps from `count` input channels to L output channels.
  template <int L>
  [[gnu::always_inline]] void read(int64_t first, int64_t count, int64_t o,
                                   T (&values)[kInputs][9][L]) const {
    const int64_t outputs = std::min<int64_t>(L, filters.out - o);
    if (filters.outwards()) {
      for (int64_t i = 0; i < count; ++i)
        for (int t = 0; t < 9; ++t)
          store<L>(values[i][t],
                   load_some<L>(filters.taps<S>(first + i, o) + t * filters.tap, outputs));
      return;
    }
    const int64_t tap = filters.tap, input = filters.w.strides()[filters.rotated ? 0 : 1];
    for (int64_t lane = 0; lane < outputs; ++lane) {
      const S* const from = filters.taps<S>(first, o + lane);
      if (tap == 1)
        for (int64_t i = 0; i < count; ++i)
          for (int t = 0; t < 9; ++t) values[i][t][lane] = from[i * input + t];
      else
        for (int t = 0; t < 9; ++t)
          for (int64_t i = 0; i < count; ++i) values[i][t][lane] = from[i * input + t * tap];
    }
  }

  const Filters filters;
  const int64_t width, blocks;
  const Tensor memory;
};

// Data shared by all threads. Each thread computes some tiles at a time in its own scratch memory.
template <class S> struct Convolution {
  using T = Acc<S>;
  Positions<T> products(T* scratch, int64_t count) const { return {scratch, count, weights.width}; }
  Positions<T> inputs(T* scratch, int64_t count) const {
    return {scratch + Positions<T>::size(count, weights.width), count,
            round_up(channels, lane_count<T>())};
  }
  int64_t scratch_size(int64_t count) const {
    return Positions<T>::size(count, weights.width) +
           Positions<T>::size(count, round_up(channels, lane_count<T>()));
  }

  // Computes y of tiles [first, first + count).
  template <int L>
  [[gnu::always_inline]] void compute(int64_t first, int64_t count, T* scratch) const {
    const Positions<T> in = inputs(scratch, count), out = products(scratch, count);
    for (int64_t t = 0; t < count; ++t) {
      const S* at[kIn * kIn];
      tiles.of_x(first + t, x, beyond, at);
      transform<ImageToTile, L>(at, channels, t, in);
    }
    for (int64_t b = 0; b < weights.blocks; ++b) {
      const Positions<T> w = weights.block(b);
      for (int p = 0; p < kPositions; ++p)
        multiply<L, T>({in.matrix(p), in.columns}, {w.matrix(p), w.columns},
                       {out.matrix(p), out.columns}, count, channels,
                       weights.template columns<L>(b));
      for (int64_t t = 0; t < count; ++t) restore<L>(first + t, t, b, out);
    }
  }

  // Writes A^T m A + bias of one tile to y.
  template <int L>
  [[gnu::always_inline]] void restore(int64_t tile, int64_t row, int64_t b,
                                      const Positions<T>& from) const {
    S* at[kOut * kOut];
    tiles.of_y(tile, y, static_cast<S*>(nullptr), at);
    for (int64_t j = 0; j < weights.template columns<L>(b); j += L) {
      const int64_t k = b * weights.width + j, count = weights.filters.out - k;
      const T* const m = from.at + row * from.columns + j;
      const Lanes<T, L> shift = bias ? load_some<L>(bias + k, count) : Lanes<T, L>{};
      both<TileToImage, Lanes<T, L>>(
          [&](int p) __attribute__((always_inline)) { return load<L>(m + p * from.step); },
          [&](int i, auto pixel) __attribute__((always_inline)) {
            if (at[i]) store_some<L>(at[i] + k, pixel + shift, count);
          });
    }
  }

  const S *x, *beyond, *bias;  // beyond: a pixel of zeros
  S* y;
  int64_t channels;
  const Tiles tiles;
  const Weights<S> weights;
};

void convolve(const Tensor& x, const Filters& filters, const Tensor& b, const Tensor& y,
              int64_t padding) {
  visit_stored(x.dtype(), [&]<class S>(S) {
    using T = Acc<S>;
    const Tensor zeros = full({filters.in}, 0, x);
    const Convolution<S> on{
        x.ptr<S>(),         zeros.ptr<S>(), b.defined() ? b.ptr<S>() : nullptr,
        y.ptr<S>(),         filters.in,     Tiles(x.shape(), y.shape(), padding),
        Weights<S>(filters)};
    const int64_t groups = ceil_div(filters.in, kInputs);
    parallel_for(on.weights.blocks * groups, 1, [&](int64_t item, int64_t) {
      const int64_t first = item % groups * kInputs, rest = filters.in - first;
      in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
        on.weights.template transform<L>(first, std::min(kInputs, rest), item / groups);
      });
    });
    const int64_t count = on.tiles.count(), blocks = ceil_div(count, kTiles);
    const int64_t each = ceil_div(count, blocks);
    const PerThread<T> scratch(on.scratch_size(each));
    parallel_for(count, each, [&](int64_t begin, int64_t end) {
      in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
        on.template compute<L>(begin, end - begin, scratch.mine());
      });
    });
  });
}

}  // namespace

// Returns w in NCHW or NHWC, so that the 9 taps are evenly spaced.
static Tensor rows_of_taps(const Tensor& w) { return w.is_contiguous(kNHWC) ? w : contiguous(w); }

static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, Slot&) {
  const Tensor y(conv2d_shape("conv2d", x.shape(), w.shape(), options), x.dtype(), Device::cpu,
                 kNHWC);
  convolve(contiguous(x, kNHWC), {rows_of_taps(w), false}, b.defined() ? contiguous(b) : b, y,
           options.padding);
  return contiguous(y, conv2d_format(x, w));
}

static Tensor backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot&) {
  const Tensor dx(x, dy.dtype(), Device::cpu, kNHWC);
  convolve(contiguous(dy, kNHWC), {rows_of_taps(w), true}, Tensor(), dx, 2 - options.padding);
  return contiguous(dx, conv2d_format(dy, w));
}

// ---- dw: all threads transform some tiles together. Then each thread multiplies its own blocks of
// input and output channels, so the sums and their order do not depend on the number of threads.

namespace {

constexpr int64_t kBytes = 1 << 20;  // transformed tiles at a time, which then stay in the cache
constexpr int64_t kFewest = 64;      // tiles at a time; with fewer, rereading the sums dominates
constexpr int64_t kRows = 32;        // input channels of a block

template <class S> struct WeightGradient {
  using T = Acc<S>;
  WeightGradient(const Tensor& dy, const Tensor& x, const Tensor& dw, int64_t padding)
      : dy(dy),
        x(x),
        dw(dw),
        tiles(x.shape(), dy.shape(), padding),
        channels_last(dw.is_contiguous(kNHWC)),
        C(x.dim(1)),
        K(dy.dim(1)),
        in(round_up(C, lane_count<T>())),
        out(round_up(K, lane_count<T>())),
        width(tile_columns<T>()),
        down(ceil_div(C, kRows)),
        across(ceil_div(K, width)),
        most(std::min(tiles.count(),
                      std::max(kFewest, kBytes / (kPositions * (in + out) * int64_t(sizeof(T)))))),
        zeros(full({std::max(C, K)}, 0, x)),
        x_memory({Positions<T>::size(most, in)}, dtype_of<T>),
        dy_memory({Positions<T>::size(most, out)}, dtype_of<T>),
        sums({down * across * Positions<T>::size(kRows, width)}, dtype_of<T>) {}

  Positions<T> x_tiles() const { return {x_memory.template ptr<T>(), most, in}; }
  Positions<T> dy_tiles() const { return {dy_memory.template ptr<T>(), most, out}; }
  Positions<T> block(int64_t b) const {
    return {sums.template ptr<T>() + b * Positions<T>::size(kRows, width), kRows, width};
  }

  template <int L> [[gnu::always_inline]] void transform_tile(int64_t tile, int64_t row) const {
    const S *of_x[kIn * kIn], *of_dy[kOut * kOut];
    const S* const beyond = zeros.template ptr<S>();
    tiles.of_x<const S>(tile, x.ptr<S>(), beyond, of_x);
    tiles.of_y<const S>(tile, dy.ptr<S>(), beyond, of_dy);
    transform<ImageToTile, L>(of_x, C, row, x_tiles());
    transform<GradientToTile, L>(of_dy, K, row, dy_tiles());
  }

  // Adds `count` tiles to block b of the sums; after the last tiles, writes its part of dw.
  template <int L>
  [[gnu::always_inline]] void multiply_block(int64_t b, int64_t count, bool add, bool last) const {
    const int64_t c = b / across * kRows, k = b % across * width;
    const int64_t rows = std::min(kRows, C - c), columns = std::min(width, out - k);
    const Positions<T> to = block(b), left = x_tiles(), right = dy_tiles();
    for (int p = 0; p < kPositions; ++p)
      multiply<L, T>({left.matrix(p) + c, 1, in}, {right.matrix(p) + k, out}, {to.matrix(p), width},
                     rows, count, columns, add);
    if (last)
      for (int64_t j = 0; j < columns; j += L) restore<L>(c, rows, k + j, to, j);
  }

  // Writes G^T m G of `rows` input channels and L output channels to dw, in contiguous runs.
  template <int L>
  [[gnu::always_inline]] void restore(int64_t c, int64_t rows, int64_t k, const Positions<T>& from,
                                      int64_t j) const {
    S taps[L][kRows * 9];
    const int64_t channel = channels_last ? 1 : 9, tap = channels_last ? kRows : 1;
    for (int64_t i = 0; i < rows; ++i) {
      const T* const m = from.at + i * width + j;
      T values[9][L];
      both<TileToFilter, Lanes<T, L>>(
          [&](int p) __attribute__((always_inline)) { return load<L>(m + p * from.step); },
          [&](int t, auto v) __attribute__((always_inline)) { store<L>(values[t], v); });
      for (int lane = 0; lane < L; ++lane)
        for (int t = 0; t < 9; ++t) taps[lane][i * channel + t * tap] = S(values[t][lane]);
    }
    for (int64_t lane = 0; lane < std::min<int64_t>(L, K - k); ++lane) {
      S* const to = dw.ptr<S>() + (k + lane) * C * 9 + c * channel;
      if (channels_last)
        for (int t = 0; t < 9; ++t) std::copy_n(taps[lane] + t * tap, rows, to + t * C);
      else
        std::copy_n(taps[lane], rows * 9, to);
    }
  }

  const Tensor &dy, &x, &dw;
  const Tiles tiles;
  const bool channels_last;           // memory format of dw
  const int64_t C, K, in, out;        // channels, and channels rounded up to whole vectors
  const int64_t width, down, across;  // blocks of dw have kRows rows and `width` columns
  const int64_t most;                 // tiles at a time
  const Tensor zeros;
  const Tensor x_memory, dy_memory, sums;
};

}  // namespace

static void backward_w(const Tensor& dy_, const Tensor& x_, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot&) {
  const Tensor dy = contiguous(dy_, kNHWC), x = contiguous(x_, kNHWC);
  const auto sum_products = [&]<class S>(const Tensor& dw, S) {
    const WeightGradient<S> of(dy, x, dw, options.padding);
    const int64_t tiles = of.tiles.count();
    for (int64_t first = 0; first < tiles; first += of.most) {
      const int64_t count = std::min(of.most, tiles - first);
      parallel_for(count, 8, [&](int64_t begin, int64_t end) {
        in_lanes<Acc<S>>([&]<int L>() __attribute__((always_inline)) {
          for (int64_t t = begin; t < end; ++t) of.template transform_tile<L>(first + t, t);
        });
      });
      parallel_for(of.down * of.across, 1, [&](int64_t b, int64_t) {
        in_lanes<Acc<S>>([&]<int L>() __attribute__((always_inline)) {
          of.template multiply_block<L>(b, count, first > 0, first + count == tiles);
        });
      });
    }
  };
  write_in(dw.is_contiguous(kNHWC) ? kNHWC : kNCHW, dw, [&](const Tensor& ordered) {
    visit_stored(x.dtype(), [&](auto zero) { sum_products(ordered, zero); });
  });
  dw.raise_version();
  if (db.defined()) conv2d_cpu::sum_pixels(dy, db);
}

// ---- registration

static bool fits(const Tensor& x, const Tensor& w, const Tensor&, const Conv2dOptions& options,
                 Slot&) {
  return x.numel() > 0 && w.numel() > 0 && options.stride == 1 && w.dim(2) == 3 && w.dim(3) == 3;
}
static bool fits_backward_x(const Tensor& dy, const Tensor& w, const Shape&,
                            const Conv2dOptions& options, Slot& slot) {
  return fits(dy, w, {}, options, slot) && options.padding <= 2;
}
static bool fits_backward_w(const Tensor&, const Tensor& x, const Tensor& dw, const Tensor& db,
                            const Conv2dOptions& options, Slot& slot) {
  return fits(x, dw, db, options, slot);
}
static const bool algorithm =
    kernels::conv2d.algorithm_on(Device::cpu, "winograd", fits, forward) &&
    kernels::conv2d_backward_x.algorithm_on(Device::cpu, "winograd", fits_backward_x, backward_x) &&
    kernels::conv2d_backward_w.algorithm_on(Device::cpu, "winograd", fits_backward_w, backward_w);

}  // namespace bellows
