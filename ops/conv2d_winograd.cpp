// Winograd's F(2x2, 3x3): four output pixels of a 3x3 convolution from 16 products where the
// formula needs 36. Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
// section 4.1:
//   y = A^T [ (G w G^T) * (B^T x B) ] A, for tiles of 4x4 pixels of x that overlap by two,
// so that for each of the 16 positions all tiles and channels make one matrix product.
#include <Eigen/Core>
#include "core/parallel.h"
#include "ops/conv2d_cpu.h"

namespace bellows {

namespace {

constexpr int64_t kTiles = 64;  // about so many of one image does a thread take at a time

template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Four numbers become those of a row of the transformed tile; for many tiles at once they are rows
// of `n` neighbours, `step` apart.
template <class T> void transform_row(const T* x, int64_t x_step, T* v, int64_t v_step, int64_t n) {
  const T *a = x, *b = a + x_step, *c = b + x_step, *d = c + x_step;
#pragma omp simd
  for (int64_t t = 0; t < n; ++t) {
    v[t] = a[t] - c[t];
    v[v_step + t] = b[t] + c[t];
    v[2 * v_step + t] = c[t] - b[t];
    v[3 * v_step + t] = b[t] - d[t];
  }
}
template <class T> void restore_row(const T* m, int64_t m_step, T* y, int64_t y_step, int64_t n) {
  const T *a = m, *b = a + m_step, *c = b + m_step, *d = c + m_step;
#pragma omp simd
  for (int64_t t = 0; t < n; ++t) {
    y[t] = a[t] + b[t] + c[t];
    y[y_step + t] = b[t] - c[t] - d[t];
  }
}

// G w G^T for each position: (K, C).
template <class T> std::vector<Matrix<T>> transform_weights(const Tensor& w) {
  const int64_t K = w.dim(0), C = w.dim(1);
  Eigen::Matrix<T, 4, 3> G;
  G << 1, 0, 0, .5, .5, .5, .5, -.5, .5, 0, 0, 1;
  std::vector<Matrix<T>> all(16, Matrix<T>(K, C));
  for (int64_t kc = 0; kc < K * C; ++kc) {
    const Eigen::Map<const Eigen::Matrix<T, 3, 3, Eigen::RowMajor>> filter(w.ptr<T>() + kc * 9);
    const Eigen::Matrix<T, 4, 4, Eigen::RowMajor> u = G * filter * G.transpose();
    for (int p = 0; p < 16; ++p) all[p].data()[kc] = u.data()[p];
  }
  return all;
}

// Whole rows of tiles of one image at a time.
template <class T> struct Block {
  Block(const Tensor& x, const Tensor& y, const Conv2dOptions& options)
      : C(x.dim(1)),
        H(x.dim(2)),
        W(x.dim(3)),
        K(y.dim(1)),
        OH(y.dim(2)),
        OW(y.dim(3)),
        padding(options.padding),
        down((OH + 1) / 2),
        across((OW + 1) / 2),
        rows(std::max<int64_t>(1, kTiles / across)),
        blocks((down + rows - 1) / rows) {}

  // Position by position: rows p * C + c of B^T x B, a column for each tile from row `first` on.
  void transform(const T* x, int64_t first, Matrix<T>& v) const {
    const int64_t n = v.cols(), count = n / across;
    std::vector<T> line(2 * across + 2), tile(16 * n), half(16 * n);
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t row = 0; row < count; ++row)
        for (int64_t i = 0; i < 4; ++i) {
          const int64_t h = (first + row) * 2 + i - padding;
          std::ranges::fill(line, T(0));
          const int64_t width = std::min<int64_t>(W, std::ssize(line) - padding);
          if (h >= 0 && h < H && width > 0)
            std::copy_n(x + (c * H + h) * W, width, line.data() + padding);
          for (int64_t j = 0; j < 4; ++j)
            for (int64_t t = 0; t < across; ++t)
              tile[(i * 4 + j) * n + row * across + t] = line[2 * t + j];
        }
      for (int64_t j = 0; j < 4; ++j) transform_row(&tile[j * n], 4 * n, &half[j * n], 4 * n, n);
      for (int64_t i = 0; i < 4; ++i)
        transform_row(&half[i * 4 * n], n, &v(i * 4 * C + c, 0), C * n, n);
    }
  }

  // A^T m A + b of the same tiles.
  void restore(const Matrix<T>& m, int64_t first, const T* b, T* y) const {
    const int64_t n = m.cols(), count = n / across;
    std::vector<T> half(8 * n), pixels(4 * n);
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t j = 0; j < 4; ++j)
        restore_row(&m(j * K + k, 0), 4 * K * n, &half[j * n], 4 * n, n);
      for (int64_t i = 0; i < 2; ++i) restore_row(&half[i * 4 * n], n, &pixels[i * 2 * n], n, n);
      for (int64_t row = 0; row < count; ++row)
        for (int64_t i = 0; i < 2 && (first + row) * 2 + i < OH; ++i)
          for (int64_t j = 0; j < OW; ++j)
            y[(k * OH + (first + row) * 2 + i) * OW + j] =
                pixels[(i * 2 + j % 2) * n + row * across + j / 2] + (b ? b[k] : T(0));
    }
  }

  const int64_t C, H, W, K, OH, OW, padding, down, across;
  const int64_t rows, blocks;  // of tiles in a block, and blocks of an image
};

}  // namespace

static Tensor forward(const Tensor& x_, const Tensor& w_, const Tensor& b_,
                      const Conv2dOptions& options, Slot&) {
  const Tensor x = contiguous(x_), w = contiguous(w_);
  const Tensor b = b_.defined() ? contiguous(b_) : b_;
  const Tensor y = empty(conv2d_shape("conv2d", x.shape(), w.shape(), options), x);
  visit_float(x.dtype(), [&]<class T>(T) {
    const Block<T> of(x, y, options);
    const std::vector<Matrix<T>> weights = transform_weights<T>(w);
    parallel_for(x.dim(0) * of.blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t n = block / of.blocks, first = block % of.blocks * of.rows;
        const int64_t tiles = std::min(of.rows, of.down - first) * of.across;
        Matrix<T> v(16 * of.C, tiles), m(16 * of.K, tiles);
        of.transform(x.ptr<T>() + n * of.C * of.H * of.W, first, v);
        for (int64_t p = 0; p < 16; ++p)
          m.middleRows(p * of.K, of.K).noalias() = weights[p] * v.middleRows(p * of.C, of.C);
        of.restore(m, first, b.defined() ? b.ptr<T>() : nullptr,
                   y.ptr<T>() + n * of.K * of.OH * of.OW);
      }
    });
  });
  return contiguous(y, conv2d_format(x_, w_));
}

static bool fits(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
                 Slot& slot) {
  return conv2d_cpu::fits_forward(x, w, b, options, slot) && w.dim(2) == 3 && w.dim(3) == 3;
}
static bool fits_backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                            const Conv2dOptions& options, Slot& slot) {
  return conv2d_cpu::fits_backward_x(dy, w, x, options, slot) && w.dim(2) == 3;
}
static const bool algorithm =
    kernels::conv2d.algorithm_on(Device::cpu, "winograd", fits, forward) &&
    kernels::conv2d_backward_x.algorithm_on(Device::cpu, "winograd", fits_backward_x,
                                            conv2d_cpu::backward_x_by<forward>);

}  // namespace bellows
