// Shared parts of the CPU algorithms for convolution: the plain one in ops/conv/conv2d.cpp, the
// candidates of autotuning in ops/conv/conv2d_*.cpp, and conv_act_pool.
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

// Sizes of conv_act_pool. PH and PW: pooled output. HP and WP: the part of the padded input that
// the windows read.
struct PooledSizes : Sizes {
  PooledSizes(const Shape& x, const Shape& w, int64_t padding)
      : Sizes(x, w, {1, padding}),
        PH(OH / 2),
        PW(OW / 2),
        HP(rows_under(PH)),
        WP(2 * PW + KW - 1) {}
  int64_t windows() const { return PH * PW; }
  int64_t rows_under(int64_t pooled_rows) const { return 2 * pooled_rows + KH - 1; }
  // Columns of the image that the windows read. They start at column `padding` of the padded image.
  int64_t columns() const { return std::min(WP - padding, W); }

  int64_t PH, PW, HP, WP;
};

// Offsets in w, which may have any strides, of the taps (c, r, s) of one output channel.
inline std::vector<int64_t> taps_in(const Tensor& w) {
  std::vector<int64_t> all(w.dim(1) * w.dim(2) * w.dim(3));
  int64_t* at = all.data();
  const Strides& strides = w.strides();
  for (int64_t c = 0; c < w.dim(1); ++c)
    for (int64_t r = 0; r < w.dim(2); ++r)
      for (int64_t s = 0; s < w.dim(3); ++s)
        *at++ = c * strides[1] + r * strides[2] + s * strides[3];
  return all;
}

// db[k] = sum over n and pixels of dy[n, k].
inline void sum_pixels(const Tensor& dy, const Tensor& db) {
  copy_into(db, kernels::sum(dy, {1, dy.dim(1), 1, 1}, 1).view_as(db.shape()));
}

// Computes dw as one product over all pixels in NHWC (ops/conv/conv2d_matmul.cpp). product_fits():
// the im2col matrix of x, one row per pixel of dy, takes at most KernelOptions::workspace_mb.
bool product_fits(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                  const Conv2dOptions& options, Slot& slot);
void backward_w_by_product(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                           const Conv2dOptions& options, Slot& slot);

}  // namespace bellows::conv2d_cpu
