// Shared parts of the CPU algorithms for convolution: the plain one in ops/conv/conv2d.cpp, and the
// candidates of autotuning in ops/conv/conv2d_*.cpp.
#pragma once
#include <Eigen/Core>
#include "core/tensor/copy.h"
#include "ops/conv/conv2d.h"

namespace bellows::conv2d_cpu {

// db[k] = sum over n and pixels of dy[n, k]. dy must be contiguous (NCHW).
inline void sum_pixels(const Tensor& dy, const Tensor& db) {
  const int64_t N = dy.dim(0), K = dy.dim(1), pixels = dy.dim(2) * dy.dim(3);
  visit_float(dy.dtype(), [&]<class T>(T) {
    using Rows = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> sums(db.ptr<T>(), K);
    sums.setZero();
    for (int64_t n = 0; n < N; ++n)
      sums += Eigen::Map<const Rows>(dy.ptr<T>() + n * K * pixels, K, pixels).rowwise().sum();
  });
  db.raise_version();
}

inline bool floats(const Tensor& t) { return t.dtype() == DType::f32 || t.dtype() == DType::f64; }

inline bool fits_forward(const Tensor& x, const Tensor&, const Tensor&, const Conv2dOptions& o,
                         Slot&) {
  return o.stride == 1 && floats(x);
}

// For stride 1, dx is also a convolution: of dy, with the weights rotated by 180 degrees, input and
// output channels exchanged, and padding KH - 1 - padding.
inline bool fits_backward_x(const Tensor& dy, const Tensor& w, const Shape&, const Conv2dOptions& o,
                            Slot&) {
  return o.stride == 1 && floats(dy) && w.dim(2) == w.dim(3) && o.padding < w.dim(2);
  // Returns w (K, C, KH, KW) rotated: (C, K, KH, KW), row-major.
}
inline Tensor turned(const Tensor& w_) {
  const Tensor w = contiguous(w_);
  const int64_t K = w.dim(0), C = w.dim(1), taps = w.dim(2) * w.dim(3);
  const Tensor y = empty({C, K, w.dim(2), w.dim(3)}, w);
  visit_float(w.dtype(), [&]<class T>(T) {
    for (int64_t k = 0; k < K; ++k)
      for (int64_t c = 0; c < C; ++c)
        std::reverse_copy(w.ptr<T>() + (k * C + c) * taps, w.ptr<T>() + (k * C + c + 1) * taps,
                          y.ptr<T>() + (c * K + k) * taps);
  });
  return y;
}
template <auto forward>
Tensor backward_x_by(const Tensor& dy, const Tensor& w, const Shape&, const Conv2dOptions& o,
                     Slot& slot) {
  const Tensor dx = forward(dy, turned(w), Tensor(), {.padding = w.dim(2) - 1 - o.padding}, slot);
  return contiguous(dx, conv2d_format(dy, w));
}

// Computes dw with sum_products(dy, x, dw, options), which takes row-major tensors, and db.
template <auto sum_products>
void backward_w_by(const Tensor& dy_, const Tensor& x_, const Tensor& dw, const Tensor& db,
                   const Conv2dOptions& options, Slot&) {
  const Tensor dy = contiguous(dy_), x = contiguous(x_);
  write_in(kNCHW, dw, [&](const Tensor& row_major) { sum_products(dy, x, row_major, options); });
  if (db.defined()) sum_pixels(dy, db);
}

// Computes dw as one product over all pixels in NHWC (ops/conv/conv2d_matmul.cpp). It fits if the
// im2col matrix of x, one row per pixel of dy, takes at most KernelOptions::workspace_mb.
bool product_fits(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                  const Conv2dOptions& options, Slot& slot);
void backward_w_by_product(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                           const Conv2dOptions& options, Slot& slot);

}  // namespace bellows::conv2d_cpu
