// conv_act_pool on the GPU, one launch each for forward and backward.
//
// Small models have too little work to fill a GPU, so both split it as finely as possible. Forward
// splits it into windows; dw into channels, shares of the images and taps; dx into pixels and
// quarters of the channels.
#include "core/base/divisor.h"
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/conv/image.cuh"

namespace bellows {

using kernels::kNoWinner;

namespace {

constexpr int kBlock = 128;  // threads per block

unsigned blocks_for(int64_t threads) { return unsigned(ceil_div(threads, kBlock)); }

// N batch, C H W input, K output channels, KH KW kernel, PH PW pooled output.
struct Sizes {
  Sizes(const Shape& x, const Shape& w, int64_t zeros) : padding(int(zeros)) {
    const Shape conv = conv2d_shape("conv_act_pool", x, w, {1, zeros});
    N = int(x[0]), C = int(x[1]), H = int(x[2]), W = int(x[3]);
    K = int(w[0]), KH = int(w[2]), KW = int(w[3]), PH = int(conv[2] / 2), PW = int(conv[3] / 2);
    windows = Divisor(int64_t(PH) * PW), row = Divisor(PW);
    const int64_t largest = std::max(x.numel(), int64_t(N) * K * PH * PW);
    CHECK(largest < int64_t{1} << 29, running_kernel(), ": x ", x, " with w ", w,
          " is beyond 32-bit indices");
  }

  int taps() const { return C * KH * KW; }

  int N, C, H, W, K, KH, KW, PH, PW, padding;
  Divisor windows, row;  // PH * PW, PW
};

// ---- forward: each thread computes one window for kChannels output channels

constexpr int kChannels = 2;

// Max and relu of the four pixels of a window. The first of equal values wins; NaN propagates.
template <class T, class A>
__device__ void pool_window(const A (&pixels)[4], T* y, uint8_t* winner) {
  A largest = pixels[0];
  int which = 0;
  for (int q = 1; q < 4; ++q)
    if (pixels[q] > largest || pixels[q] != pixels[q]) largest = pixels[q], which = q;
  *y = T(largest <= 0 ? A(0) : largest);
  *winner = largest > 0 ? uint8_t(which) : kNoWinner;
}

// Blocks of kBlock threads, `parts` per image; no shared memory. S: KH and KW if unrolled, else 0.
template <class T, int S>
__global__ void __launch_bounds__(kBlock, sizeof(Acc<T>) == 4 ? 3 : 2)
    forward_windows(Sizes z, Divisor parts, Image<const T> x, const T* w, const T* b, T* y,
                    uint8_t* winner) {
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

// ---- backward of w and b: one block per output channel and share of the images; of a channel's
// blocks, the one that ends last adds up the shares
//
//   dw(k, c, r, s) = sum over winners (n, k, i, j) of dy(n, k, i, j) x(n, c, h + r, w + s)
//
// with (h, w) the winner's pixel. Each thread has R neighboring taps of a row of the kernel.
// `teams` groups of such threads split the windows, and their sums are added in shared memory.

struct Shares {
  int count, images;    // shares, images per share
  int lanes, teams;     // threads per team, teams per block
  Divisor row, kernel;  // threads for a row of the kernel, for the whole kernel
};

// sum[t] belongs to tap t; sum[R] is the sum of dy alone, for db.
template <class T, int R>
__device__ void add_taps(const Sizes& z, const Shares& shares, int share, int k, const T* dy,
                         const uint8_t* winner, const Image<const T>& x, int item, int team,
                         Acc<T> (&sum)[R + 1]) {
  const int c = item / shares.kernel, place = item % shares.kernel;
  const int r = place / shares.row - z.padding, s = place % shares.row * R - z.padding;
  const int last = std::min((share + 1) * shares.images, z.N);
  for (int n = share * shares.images; n < last; ++n) {
    const int64_t channel = (int64_t(n) * z.K + k) * z.windows.size;
    const T* const plane = x.plane(n, c);
#pragma unroll 4
    for (int i = team; i < z.windows.size; i += shares.teams) {
      const int q = winner[channel + i];
      const Acc<T> grad = q == kNoWinner ? Acc<T>(0) : Acc<T>(dy[channel + i]);
      const int above = i / z.row, h = 2 * above + (q >> 1) + r;
      const int w = 2 * (i - above * z.row.size) + (q & 1) + s;
      // Without a winner, reads a row outside the image, i.e. zeros: 0 times infinity would be NaN.
      const auto line = x.line(plane, q == kNoWinner ? -1 : h);
#pragma unroll
      for (int t = 0; t < R; ++t) sum[t] += grad * line[w + t];
      sum[R] += grad;
    }
  }
}

constexpr int kTickets = 256;  // more channels than these share them
static __device__ unsigned tickets[kTickets];

template <class T> struct WeightGrads {
  T *dw, *db;
  Acc<T>* parts;  // (K, shares, taps + 1): the taps of dw, then db
};

template <class T, int R>
__device__ void backward_w(const Sizes& z, const Shares& shares, int block, const T* dy,
                           const uint8_t* winner, const Image<const T>& x,
                           const WeightGrads<T>& grads) {
  Acc<T>* const scratch = dynamic_shared<Acc<T>>();  // (teams, lanes, R + 1)
  const int share = block / z.K, k = block % z.K, items = z.C * shares.kernel.size;
  const int lane = int(threadIdx.x) % shares.lanes, team = int(threadIdx.x) / shares.lanes;
  const int taps = items * R, width = shares.lanes * (R + 1);
  const int64_t of_channel = int64_t(shares.count) * (taps + 1);
  Acc<T>* const part = grads.parts + k * of_channel + int64_t(share) * (taps + 1);
  for (int first = 0; first < items; first += shares.lanes) {
    Acc<T> sum[R + 1] = {};
    if (first + lane < items)
      add_taps<T, R>(z, shares, share, k, dy, winner, x, first + lane, team, sum);
    for (int t = 0; t <= R; ++t) scratch[team * width + lane * (R + 1) + t] = sum[t];
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += kBlock) {
      Acc<T> total = scratch[i];
      for (int other = 1; other < shares.teams; ++other) total += scratch[other * width + i];
      const int item = first + i / (R + 1), t = i % (R + 1);
      if (t < R && item < items) part[item * R + t] = total;
      if (t == R && item == 0) part[taps] = total;
    }
    __syncthreads();
  }
  const int ticket = k % kTickets;
  if (!is_last_block(&tickets[ticket], shares.count * ceil_div(z.K - ticket, kTickets))) return;
  for (int c = ticket; c < z.K; c += kTickets)
    for (int i = threadIdx.x; i <= taps; i += kBlock) {
      Acc<T> sum = 0;
#pragma unroll 8
      for (int s = 0; s < shares.count; ++s)
        sum += grads.parts[c * of_channel + s * (taps + 1) + i];
      (i < taps ? grads.dw[int64_t(c) * taps + i] : grads.db[c]) = T(sum);
    }
}

// ---- backward of x: four threads for 2x2 pixels, each with every fourth channel
//
//   dx(n, c, h, w) = sum over winners (n, k, i, j) that reach it of dy(n, k, i, j) w(k, c, r, s)
//
// with (r, s) from the winner's pixel to (h, w). The pixels are aligned to the windows, so all four
// depend on the same KH/2 + 1 by KW/2 + 1 windows, and on neighboring taps. A border of zeros
// around the kernel stands for taps outside it.

struct Quads {
  Divisor height, width, image;  // size of a plane in quads; image: height * width
  int threads, parts;            // threads for one channel of all images; blocks for these
  int channels;                  // output channels whose weights are in shared memory at once
};

// Side length of a kernel with its border.
__host__ __device__ constexpr int bordered(int kernel) { return kernel / 2 * 2 + 3; }

// Loads w(first + i, c) for i < count, each with its border.
template <class T>
__device__ void load_weights(const T* w, int C, int c, int first, int count, int KH, int KW,
                             Acc<T>* to) {
  const int row = bordered(KW), area = bordered(KH) * row;
  for (int i = threadIdx.x; i < count * area; i += kBlock) {
    const int r = i % area / row - 1, s = i % row - 1;
    const bool inside = unsigned(r) < unsigned(KH) && unsigned(s) < unsigned(KW);
    to[i] = inside ? Acc<T>(w[((int64_t(first + i / area) * C + c) * KH + r) * KW + s]) : Acc<T>(0);
  }
}

// sum(2, 2) += winners of a channel (PH, PW) times its bordered taps. (i, j): the quad's last
// window.
template <class T, int S>
__device__ void add_winners(const Sizes& z, int i, int j, const T* dy, const uint8_t* winner,
                            const Acc<T>* taps, Acc<T> (&sum)[4]) {
  const int KH = S ? S : z.KH, KW = S ? S : z.KW, row = bordered(KW);
#pragma unroll
  for (int d = 0; d <= KH / 2; ++d)
#pragma unroll
    for (int e = 0; e <= KW / 2; ++e) {
      const bool inside = unsigned(i - d) < unsigned(z.PH) && unsigned(j - e) < unsigned(z.PW);
      const int at = (i - d) * z.PW + j - e, q = inside ? winner[at] : kNoWinner;
      const Acc<T> grad = q == kNoWinner ? Acc<T>(0) : Acc<T>(dy[at]);
      const Acc<T>* const tap = taps + (2 * d + 1 - (q >> 1 & 1)) * row + 2 * e + 1 - (q & 1);
#pragma unroll
      for (int p = 0; p < 4; ++p) sum[p] += grad * tap[(p >> 1) * row + (p & 1)];
    }
}

template <class T, int S>
__device__ void backward_x(const Sizes& z, const Quads& quads, int block, const T* dy,
                           const uint8_t* winner, const T* w, T* dx) {
  const int KH = S ? S : z.KH, KW = S ? S : z.KW, area = bordered(KH) * bordered(KW);
  Acc<T>* const taps = dynamic_shared<Acc<T>>();  // (quads.channels, area)
  const int c = block / quads.parts, thread = block % quads.parts * kBlock + int(threadIdx.x);
  const int slice = thread % 4, quad = std::min(thread, quads.threads - 1) / 4;
  const int n = quad / quads.image, place = quad % quads.image;
  const int i = place / quads.width + z.padding / 2, j = place % quads.width + z.padding / 2;
  Acc<T> sum[4] = {};
  for (int first = 0; first < z.K; first += quads.channels) {
    const int count = std::min(quads.channels, z.K - first);
    load_weights(w, z.C, c, first, count, KH, KW, taps);
    __syncthreads();
    for (int k = slice; k < count; k += 4) {
      const int64_t channel = (int64_t(n) * z.K + first + k) * z.windows.size;
      add_winners<T, S>(z, i, j, dy + channel, winner + channel, taps + k * area, sum);
    }
    __syncthreads();
  }
  // All four threads compute all sums; each writes one pixel.
  Acc<T> mine = 0;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    sum[p] += __shfl_xor_sync(~0u, sum[p], 1);
    sum[p] += __shfl_xor_sync(~0u, sum[p], 2);
    if (p == slice) mine = sum[p];
  }
  const int row = 2 * i - z.padding + (slice >> 1), column = 2 * j - z.padding + (slice & 1);
  const bool inside = unsigned(row) < unsigned(z.H) && unsigned(column) < unsigned(z.W);
  if (thread < quads.threads && inside)
    dx[((int64_t(n) * z.C + c) * z.H + row) * z.W + column] = T(mine);
}

// Computes dw and dx in one launch: launches dominate in small models. Blocks of kBlock threads.
// Shared memory, up to 48 KiB: R + 1 sums per thread, or weights of quads.channels.
template <class T, int S>
__global__ void backward_both(Sizes z, Shares shares, Quads quads, const T* dy,
                              const uint8_t* winner, Image<const T> x, const T* w,
                              WeightGrads<T> grads, T* dx) {
  const int block = int(blockIdx.x), blocks_of_w = shares.count * z.K;
  if (block < blocks_of_w)
    backward_w<T, S ? S : 1>(z, shares, block, dy, winner, x, grads);
  else
    backward_x<T, S>(z, quads, block - blocks_of_w, dy, winner, w, dx);
}

// ---- host code

// Enough shares to fill the GPU with blocks, each of at least one image.
Shares shares_of(const Sizes& z, int R) {
  const int most = std::max(4 * cuda::limits().multiprocessors / z.K, 1),
            images = std::max(ceil_div(z.N, most), 1);
  const Divisor row(z.KW / R), kernel(int64_t(z.KH) * z.KW / R);
  const int lanes = std::clamp(int(std::bit_ceil(unsigned(z.C * kernel.size))), 8, kBlock);
  return {std::max(ceil_div(z.N, images), 1), images, lanes, kBlock / lanes, row, kernel};
}

Quads quads_of(const Sizes& z) {
  constexpr int kWeights = 4096;  // elements in shared memory
  const auto along = [&](int size) { return (size - 1 + z.padding) / 2 - z.padding / 2 + 1; };
  const Divisor height(along(z.H)), width(along(z.W)), image(int64_t(height.size) * width.size);
  const int threads = 4 * z.N * image.size;
  const int channels = std::clamp(kWeights / (bordered(z.KH) * bordered(z.KW)), 1, z.K);
  return {height, width, image, threads, int(blocks_for(threads)), channels};
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
    kernels::with_kernel(z.KH, z.KW, [&]<int S>() {
      launch(forward_windows<T, S>, Grid{z.N * parts, kBlock}, z, Divisor(parts), Image<const T>(x),
             w.ptr<T>(), b.ptr<T>(), out.y.ptr<T>(), out.winner.ptr<uint8_t>());
    });
  });
  return out;
}

static Tensor backward(const Tensor& dy_, const Tensor& winner, const Tensor& x, const Tensor& w_,
                       const Tensor& dw_, const Tensor& db, int64_t padding, bool needs_dx) {
  const Tensor dy = contiguous(dy_), w = contiguous(w_);
  const Sizes z(x.shape(), w.shape(), padding);
  const Tensor dx = needs_dx ? empty(x.shape(), x) : Tensor();
  const Quads quads = quads_of(z);
  const int64_t area = bordered(z.KH) * bordered(z.KW);
  const auto run = [&](const Tensor& dw) {
    visit_stored(x.dtype(), [&]<class T>(T) {
      kernels::with_kernel(z.KH, z.KW, [&]<int S>() {
        constexpr int R = S ? S : 1;
        const Shares shares = shares_of(z, R);
        const Tensor parts({z.K, shares.count, z.taps() + 1}, dtype_of<Acc<T>>, x.device());
        const int blocks = shares.count * z.K + (needs_dx ? z.C * quads.parts : 0);
        const size_t shared =
            std::max<int64_t>(kBlock * (R + 1), quads.channels * area) * sizeof(Acc<T>);
        CHECK(shared <= 48 << 10, running_kernel(), ": w ", w.shape(), " needs ", shared,
              " bytes of shared memory, more than 49152");
        launch(backward_both<T, S>, Grid{unsigned(blocks), kBlock, shared}, z, shares, quads,
               dy.ptr<T>(), winner.ptr<uint8_t>(), Image<const T>(x), w.ptr<T>(),
               WeightGrads<T>{dw.ptr<T>(), db.ptr<T>(), parts.ptr<Acc<T>>()},
               needs_dx ? dx.ptr<T>() : nullptr);
      });
    });
    dw.raise_version();
  };
  write_in(kNCHW, dw_, run);
  db.raise_version();
  return dx;
}

static const bool gpu = kernels::conv_act_pool.on(Device::cuda, forward) &&
                        kernels::conv_act_pool_backward.on(Device::cuda, backward);

}  // namespace bellows
