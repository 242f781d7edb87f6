// Shared by forward and backward of conv_act_pool on the GPU: one launch forward, two backward.
//
// Small models have too little work to fill a GPU, so both split it as finely as possible. Forward
// splits it into windows; dw into channels, shares of the images and taps; dx into pixels and
// quarters of the channels.
#pragma once
#include "core/base/divisor.h"
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/tensor/copy.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/conv/image.cuh"

namespace bellows::conv_act_pool_cuda {

constexpr int kBlock = 128;  // threads per block

inline unsigned blocks_for(int64_t threads) { return unsigned(ceil_div(threads, kBlock)); }

// Dimensions: N batch, C H W input, K output channels, KH KW kernel, PH PW pooled output.
struct Sizes {
  Sizes(const Shape& x, const Shape& w, int64_t padding)
      : N(int(x[0])),
        C(int(x[1])),
        H(int(x[2])),
        W(int(x[3])),
        K(int(w[0])),
        KH(int(w[2])),
        KW(int(w[3])),
        PH(int((x[2] + 2 * padding - w[2] + 1) / 2)),
        PW(int((x[3] + 2 * padding - w[3] + 1) / 2)),
        padding(int(padding)),
        windows(int64_t(PH) * PW),
        row(PW) {
    const int64_t largest = std::max(x.numel(), int64_t(N) * K * PH * PW);
    CHECK(largest < int64_t{1} << 29, running_kernel(), ": x ", x, " with w ", w,
          " is beyond 32-bit indices");
  }
  int taps() const { return C * KH * KW; }

  int N, C, H, W, K, KH, KW, PH, PW, padding;
  Divisor windows, row;  // PH * PW, PW
};

// Calls fn.operator()<S>() with the size of a square kernel if loops are unrolled for it, else 0.
template <class Fn> void with_kernel(const Sizes& z, const Fn& fn) {
  if (z.KH == 5 && z.KW == 5)
    fn.template operator()<5>();
  else if (z.KH == 3 && z.KW == 3)
    fn.template operator()<3>();
  else
    fn.template operator()<0>();
}

}  // namespace bellows::conv_act_pool_cuda
