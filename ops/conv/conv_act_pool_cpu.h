// Shared by forward and backward of conv_act_pool on the CPU.
#pragma once
#include "core/tensor/tensor.h"
#include "ops/base/lanes.h"
#include "ops/base/per_thread.h"

namespace bellows {

// Dimensions: N batch, C H W input, K output channels, KH KW kernel, PH PW pooled output. HP and
// WP: the part of the padded input that the windows read.
struct ConvActPoolSizes {
  ConvActPoolSizes(const Shape& x, const Shape& w, int64_t padding)
      : N(x[0]),
        C(x[1]),
        H(x[2]),
        W(x[3]),
        K(w[0]),
        KH(w[2]),
        KW(w[3]),
        PH((H + 2 * padding - KH + 1) / 2),
        PW((W + 2 * padding - KW + 1) / 2),
        HP(rows_under(PH)),
        WP(2 * PW + KW - 1),
        padding(padding) {}
  int64_t taps() const { return C * KH * KW; }
  int64_t windows() const { return PH * PW; }
  int64_t rows_under(int64_t pooled_rows) const { return 2 * pooled_rows + KH - 1; }
  // Columns of the image that the windows read. They start at column `padding` of the padded image.
  int64_t columns() const { return std::min(WP - padding, W); }

  int64_t N, C, H, W, K, KH, KW, PH, PW, HP, WP, padding;
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

// Calls fn.operator()<count>(), for count from 1 to `most`.
template <int most, class Fn>
[[gnu::always_inline]] inline void with_count(int64_t count, const Fn& fn) {
  if (count == most) {
    fn.template operator()<most>();
  } else if constexpr (most > 1) {
    with_count<most - 1>(count, fn);
  }
}

// Calls fn.operator()<S>() with the size of a square kernel if loops are unrolled for it, else 0.
template <class Fn>
[[gnu::always_inline]] inline void with_kernel(const ConvActPoolSizes& z, const Fn& fn) {
  if (z.KH == 5 && z.KW == 5) {
    fn.template operator()<5>();
  } else if (z.KH == 3 && z.KW == 3) {
    fn.template operator()<3>();
  } else {
    fn.template operator()<0>();
  }
}

}  // namespace bellows
