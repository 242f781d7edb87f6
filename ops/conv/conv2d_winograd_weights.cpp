// Algorithm "winograd" for dw of 3x3 convolutions with stride 1 (ops/conv/winograd.h). All threads
// transform some tiles together. Then each thread multiplies its own blocks of input and output
// channels, so the sums and their order do not depend on the number of threads.
#include "core/base/round.h"
#include "core/device/parallel.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/conv/winograd.h"
#include "ops/matmul/tile_product.h"

namespace bellows {

using namespace winograd;

namespace {

constexpr int64_t kBytes = 1 << 20;  // of transformed tiles at a time, so that they stay in cache
constexpr int64_t kFewest = 64;      // least tiles at a time, or rereading the sums dominates
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
      T numbers[9][L];
      both<TileToFilter, Lanes<T, L>>(
          [&](int p) __attribute__((always_inline)) { return load<L>(m + p * from.step); },
          [&](int t, auto v) __attribute__((always_inline)) { store<L>(numbers[t], v); });
      for (int lane = 0; lane < L; ++lane)
        for (int t = 0; t < 9; ++t) taps[lane][i * channel + t * tap] = S(numbers[t][lane]);
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
  if (db.defined()) conv2d_cpu::sum_pixels(contiguous(dy), db);
}

static bool fits(const Tensor&, const Tensor& x, const Tensor& dw, const Tensor& db,
                 const Conv2dOptions& options, Slot&) {
  return x.numel() > 0 && options.stride == 1 && dw.dim(2) == 3 && dw.dim(3) == 3 &&
         (!db.defined() || conv2d_cpu::floats(x));
}
static const bool algorithm =
    kernels::conv2d_backward_w.algorithm_on(Device::cpu, "winograd", fits, backward_w);

}  // namespace bellows
