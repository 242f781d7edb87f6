// conv_act_pool forward on the GPU. Each thread computes one window for kChannels output channels.
#include "core/base/round.h"
#include "ops/conv/conv_act_pool.cuh"

namespace bellows {

using namespace conv_act_pool_cuda;

namespace {

constexpr int kChannels = 2;

// Max and relu of the four pixels of a window. The first of equal values wins; NaN propagates.
template <class T, class A>
__device__ void pool_window(const A (&pixels)[4], T* y, uint8_t* winner) {
  A largest = pixels[0];
  int which = 0;
  for (int q = 1; q < 4; ++q)
    if (pixels[q] > largest || pixels[q] != pixels[q]) largest = pixels[q], which = q;
  *y = T(largest <= 0 ? A(0) : largest);
  *winner = largest > 0 ? uint8_t(which) : kernels::kNoWinner;
}

// Blocks of kBlock threads, `parts` per image; no shared memory. S: KH and KW if unrolled, else 0.
template <class T, int S>
__global__ void __launch_bounds__(kBlock, sizeof(Acc<T>) == 4 ? 3 : 2)
    forward_windows(Sizes z, Divisor parts, Image<const T> x, const T* w, const T* b, T* y,
                    uint8_t* winner) {
  await_predecessor();
  const int KH = S ? S : z.KH, KW = S ? S : z.KW, groups = ceil_div(z.K, kChannels);
  const int n = int(blockIdx.x) / parts, i = int(blockIdx.x) % parts * kBlock + int(threadIdx.x);
  if (i >= groups * z.windows.size) return;
  const int window = i % z.windows, first = i / z.windows * kChannels;
  const int row = 2 * (window / z.row) - z.padding, column = 2 * (window % z.row) - z.padding;

  const T* taps[kChannels];
  Acc<T> sum[kChannels][4];
#pragma unroll
  for (int j = 0; j < kChannels; ++j) {
    const int k = std::min(first + j, z.K - 1);
    taps[j] = w + int64_t(k) * z.C * KH * KW;
    for (Acc<T>& pixel : sum[j]) pixel = Acc<T>(b[k]);
  }
  for (int c = 0; c < z.C; ++c) {
    const T* const plane = x.plane(n, c);
#pragma unroll
    for (int r = 0; r <= KH; ++r) {  // upper pixels use rows 0 .. KH - 1, lower ones 1 .. KH
      const auto line = x.line(plane, row + r);
      Acc<T> left = line[column];
#pragma unroll
      for (int s = 0; s < KW; ++s) {
        const Acc<T> right = line[column + s + 1];
#pragma unroll
        for (int j = 0; j < kChannels; ++j) {
          const T* const tap = taps[j] + s;
          const Acc<T> upper(r < KH ? Acc<T>(tap[r * KW]) : Acc<T>(0));
          const Acc<T> lower(r > 0 ? Acc<T>(tap[(r - 1) * KW]) : Acc<T>(0));
          if (r < KH) sum[j][0] += left * upper, sum[j][1] += right * upper;
          if (r > 0) sum[j][2] += left * lower, sum[j][3] += right * lower;
        }
        left = right;
      }
    }
#pragma unroll
    for (int j = 0; j < kChannels; ++j) taps[j] += KH * KW;
  }
  for (int j = 0; j < kChannels && first + j < z.K; ++j) {
    const int64_t at = (int64_t(n) * z.K + first + j) * z.windows.size + window;
    pool_window(sum[j], y + at, winner + at);
  }
}

}  // namespace

static kernels::ConvActPool forward(const Tensor& x, const Tensor& w_, const Tensor& b_,
                                    int64_t padding) {
  const Tensor w = contiguous(w_), b = contiguous(b_);
  const Sizes z(x.shape(), w.shape(), padding);
  const Shape shape{z.N, z.K, z.PH, z.PW};
  const kernels::ConvActPool out{empty(shape, x), Tensor(shape, DType::u8, x.device())};
  if (shape.numel() == 0) return out;
  const unsigned parts = blocks_for(int64_t(ceil_div(z.K, kChannels)) * z.windows.size);
  visit_stored(x.dtype(), [&]<class T>(T) {
    with_kernel(z, [&]<int S>() {
      launch(forward_windows<T, S>, Grid{z.N * parts, kBlock}, z, Divisor(parts), Image<const T>(x),
             w.ptr<T>(), b.ptr<T>(), out.y.ptr<T>(), out.winner.ptr<uint8_t>());
    });
  });
  return out;
}

static const bool gpu = kernels::conv_act_pool.on(Device::cuda, forward);

}  // namespace bellows
