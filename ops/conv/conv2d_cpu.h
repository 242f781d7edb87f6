// Shared parts of the CPU algorithms for convolution: the plain one in ops/conv/conv2d.cpp, and the
// candidates of autotuning in ops/conv/conv2d_*.cpp.
#pragma once
#include "core/tensor/copy.h"
#include "ops/conv/conv2d.h"
#include "ops/reduce.h"

namespace bellows::conv2d_cpu {

// Dimensions: N batch, C H W image, K output channels, KH KW kernel, OH OW output.
struct Sizes {
  Sizes(const Shape& x, const Shape& w, const Conv2dOptions& o)
      : stride(o.stride), padding(o.padding) {
    const Shape y = conv2d_shape("conv2d", x, w, o);
    N = x[0], C = x[1], H = x[2], W = x[3];
    K = w[0], KH = w[2], KW = w[3], OH = y[2], OW = y[3];
  }
  int64_t taps() const { return C * KH * KW; }
  int64_t pixels() const { return OH * OW; }

  int64_t N, C, H, W, K, KH, KW, OH, OW, stride, padding;
};

// db[k] = sum over n and pixels of dy[n, k].
inline void sum_pixels(const Tensor& dy, const Tensor& db) {
  copy_into(db, kernels::sum(dy, {1, dy.dim(1), 1, 1}, 1).view_as(db.shape()));
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
