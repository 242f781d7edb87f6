// Algorithm "winograd" for y and dx of 3x3 convolutions with stride 1 (ops/conv/winograd.h). Images
// are in NHWC with the channels in vectors; 16-bit types are computed in f32.
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "ops/base/per_thread.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/conv/winograd.h"
#include "ops/matmul/tile_product.h"

namespace bellows {

using namespace winograd;

namespace {

constexpr int64_t kTiles = 48;   // most tiles that a thread computes at a time
constexpr int64_t kInputs = 16;  // input channels whose weights are transformed at a time

// The weights w (K, C, 3, 3) of a convolution from `in` to `out` channels. For dx they are rotated
// by 180 degrees (`turned`) and lead from K to C.
struct Filters {
  Filters(const Tensor& w, bool turned)
      : w(w), turned(turned), in(w.dim(turned ? 0 : 1)), out(w.dim(turned ? 1 : 0)) {}
  // First of the 9 taps from channel i to o, `tap` elements apart; in reverse order if turned.
  template <class S> const S* taps(int64_t i, int64_t o) const {
    return w.ptr<S>() + (turned ? i : o) * w.strides()[0] + (turned ? o : i) * w.strides()[1];
  }
  // True if output channels are contiguous.
  bool outwards() const { return turned && w.strides()[1] == 1; }
  Tensor w;
  bool turned;
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
      T numbers[kInputs][9][L] = {};
      read<L>(first, count, b * width + j, numbers);
      for (int64_t i = 0; i < count; ++i) {
        T* const at = to.at + (first + i) * width + j;
        const auto tap = [&](int t) __attribute__((always_inline)) {
          return load<L>(numbers[i][filters.turned ? 8 - t : t]);
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
                                   T (&numbers)[kInputs][9][L]) const {
    const int64_t outputs = std::min<int64_t>(L, filters.out - o);
    if (filters.outwards()) {
      for (int64_t i = 0; i < count; ++i)
        for (int t = 0; t < 9; ++t)
          store<L>(numbers[i][t],
                   load_some<L>(filters.taps<S>(first + i, o) + t * filters.tap, outputs));
      return;
    }
    const int64_t tap = filters.tap, input = filters.w.strides()[filters.turned ? 0 : 1];
    for (int64_t lane = 0; lane < outputs; ++lane) {
      const S* const from = filters.taps<S>(first, o + lane);
      if (tap == 1)
        for (int64_t i = 0; i < count; ++i)
          for (int t = 0; t < 9; ++t) numbers[i][t][lane] = from[i * input + t];
      else
        for (int t = 0; t < 9; ++t)
          for (int64_t i = 0; i < count; ++i) numbers[i][t][lane] = from[i * input + t * tap];
    }
  }

  const Filters filters;
  const int64_t width, blocks;
  const Tensor memory;
};

// Data shared by all threads. Each computes some tiles at a time, in its own scratch memory.
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

static bool fits(const Tensor& x, const Tensor& w, const Tensor&, const Conv2dOptions& options,
                 Slot&) {
  return x.numel() > 0 && options.stride == 1 && w.dim(2) == 3 && w.dim(3) == 3;
}
static bool fits_backward_x(const Tensor& dy, const Tensor& w, const Shape&,
                            const Conv2dOptions& options, Slot&) {
  return dy.numel() > 0 && options.stride == 1 && w.dim(2) == 3 && w.dim(3) == 3 &&
         options.padding <= 2;
}
static const bool algorithm =
    kernels::conv2d.algorithm_on(Device::cpu, "winograd", fits, forward) &&
    kernels::conv2d_backward_x.algorithm_on(Device::cpu, "winograd", fits_backward_x, backward_x);

}  // namespace bellows
