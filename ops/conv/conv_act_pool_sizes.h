// Dimensions of conv_act_pool, for the kernels of every device.
#pragma once
#include "ops/conv/conv2d.h"

namespace bellows {

// N batch, C H W input, K output channels, KH KW kernel, PH PW pooled output. Int: the type in
// which kernels compute indices.
template <class Int> struct ConvActPoolSizes {
  ConvActPoolSizes(const Shape& x, const Shape& w, int64_t padding)
      : N(Int(x[0])),
        C(Int(x[1])),
        H(Int(x[2])),
        W(Int(x[3])),
        K(Int(w[0])),
        KH(Int(w[2])),
        KW(Int(w[3])),
        padding(Int(padding)) {
    const Shape conv = conv2d_shape("conv_act_pool", x, w, {1, padding});
    PH = Int(conv[2] / 2), PW = Int(conv[3] / 2);
  }
  Int taps() const { return C * KH * KW; }

  Int N, C, H, W, K, KH, KW, PH, PW, padding;
};

// Calls fn.operator()<S>() with the size of a square kernel if loops are unrolled for it, else 0.
template <class Sizes, class Fn>
__attribute__((always_inline)) inline void with_kernel(const Sizes& z, const Fn& fn) {
  if (z.KH == 5 && z.KW == 5)
    fn.template operator()<5>();
  else if (z.KH == 3 && z.KW == 3)
    fn.template operator()<3>();
  else
    fn.template operator()<0>();
}

}  // namespace bellows
