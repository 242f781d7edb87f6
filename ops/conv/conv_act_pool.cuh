// Shared by forward and backward of conv_act_pool on the GPU, one launch each.
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
#include "ops/conv/conv_act_pool_sizes.h"
#include "ops/conv/image.cuh"

namespace bellows::conv_act_pool_cuda {

constexpr int kBlock = 128;  // threads per block

inline unsigned blocks_for(int64_t threads) { return unsigned(ceil_div(threads, kBlock)); }

struct Sizes : ConvActPoolSizes<int> {
  Sizes(const Shape& x, const Shape& w, int64_t padding)
      : ConvActPoolSizes(x, w, padding), windows(int64_t(PH) * PW), row(PW) {
    const int64_t largest = std::max(x.numel(), int64_t(N) * K * PH * PW);
    CHECK(largest < int64_t{1} << 29, running_kernel(), ": x ", x, " with w ", w,
          " is beyond 32-bit indices");
  }

  Divisor windows, row;  // PH * PW, PW
};

}  // namespace bellows::conv_act_pool_cuda
