// What the two halves of conv_act_pool share on the GPU: one launch forward, two backward.
//
// Small nets have too little work to fill a GPU, so each half cuts it as finely as it can: forward
// into windows, dw into channels, shares of the images and rows of the kernel, dx into pixels and
// quarters of the channels.
#pragma once
#include "core/base/divisor.h"
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/tensor/copy.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/conv/image.cuh"

namespace bellows::conv_act_pool_cuda {

constexpr int kBlock = 128;  // threads of each block

inline unsigned blocks_for(int64_t threads) { return unsigned(ceil_div(threads, kBlock)); }

// N batch, C H W input, K output channels, KH KW kernel, PH PW pooled output.
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

// Calls fn.operator()<S>() with the size of a square kernel that loops are unrolled for, else 0.
template <class Fn> void with_kernel(const Sizes& z, const Fn& fn) {
  if (z.KH == 5 && z.KW == 5)
    fn.template operator()<5>();
  else if (z.KH == 3 && z.KW == 3)
    fn.template operator()<3>();
  else
    fn.template operator()<0>();
}

}  // namespace bellows::conv_act_pool_cuda
