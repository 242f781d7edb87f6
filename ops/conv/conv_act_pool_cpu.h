// Sizes, taps and loops that forward and backward of conv_act_pool share on the CPU.
#pragma once
#include "ops/base/lanes.h"
#include "ops/base/per_thread.h"
#include "ops/conv/conv2d_cpu.h"

namespace bellows::conv_act_pool_cpu {

// PH and PW: pooled output. HP and WP: the part of the padded input that the windows read.
struct Sizes : conv2d_cpu::Sizes {
  Sizes(const Shape& x, const Shape& w, int64_t padding)
      : conv2d_cpu::Sizes(x, w, {1, padding}),
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

}  // namespace bellows::conv_act_pool_cpu
