// conv_act_pool forward on the CPU: convolution, relu, pooling and winners in one pass.
//
// The vector lanes hold samples of the batch, for any number of channels. If the batch would leave
// more lanes empty, they hold output channels. In both cases a block of accumulators covers the
// four pixels of pooling windows, so only the result is written. Both compute each output as the
// same sum in the same order.
#include "core/base/round.h"
#include "core/tensor/copy.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/conv/conv_act_pool_cpu.h"

namespace bellows {

using namespace conv_act_pool_cpu;

namespace {

// Number of accumulators that fit in the registers beside their operands.
constexpr int channels_at_once(int64_t vector_bytes) { return vector_bytes == 64 ? 6 : 2; }
constexpr int windows_at_once(int64_t vector_bytes) { return vector_bytes == 64 ? 5 : 2; }

template <class T> struct Job {
  Sizes z;
  const T* x;
  Strides strides;         // x's
  const T *w, *b;          // w in blocks of channels: (block, C, KH, KW, channels of the block)
  const int64_t* lane_at;  // with samples in the lanes: offset of each column in a padded row
  T* y;
  uint8_t* winner;
};

// Max and relu of the convolution at the four pixels of one window; the first of equal values wins.
// Each comparison is used at once, because g++ 12 scalarizes one that is kept in a variable.
template <class T, int L>
[[gnu::always_inline]] inline void pool_window(const Lanes<T, L>* a, T* y, uint8_t* winner) {
  using Vector = Lanes<T, L>;
  using Int = decltype(a[0] < a[0]);
  const Vector upper = a[1] > a[0] ? a[1] : a[0], lower = a[3] > a[2] ? a[3] : a[2];
  const Vector largest = lower > upper ? lower : upper;
  const Int above = a[1] > a[0] ? Int{} + 1 : Int{}, below = a[3] > a[2] ? Int{} + 3 : Int{} + 2;
  const Int which = lower > upper ? below : above;
  const Int nan =
      (nan_mask<T, L>(a[0]) | nan_mask<T, L>(a[1])) | (nan_mask<T, L>(a[2]) | nan_mask<T, L>(a[3]));
  store<L>(y, (Vector)((Int)(largest > 0 ? largest : Vector{}) | nan));  // all bits: NaN
  store<L>(winner, __builtin_convertvector(largest > 0 ? which : Int{} + kernels::kNoWinner,
                                           Lanes<uint8_t, L>));
}

// ---- samples in the lanes

constexpr int64_t kRows = 8;  // pooled rows of a chunk

// Computes one window for L samples and B channels. x: (C, rows, WP, L), starting at the window's
// corner. w: (C, KH, KW, B). Channels of y are `next` apart.
template <class T, int L, int B, int S>
[[gnu::always_inline]] inline void sample_window(const Sizes& z, const T* x, int64_t plane,
                                                 const T* w, const T* b, T* y, uint8_t* winner,
                                                 int64_t next) {
  const int64_t KH = S ? S : z.KH, KW = S ? S : z.KW, row = z.WP * L;
  Lanes<T, L> a[B][4];
#pragma GCC unroll 6
  for (int j = 0; j < B; ++j)
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) a[j][q] = Lanes<T, L>{} + b[j];
  for (int64_t c = 0; c < z.C; ++c)
    for (int64_t r = 0; r < KH; ++r) {
      const T* const at = x + c * plane + r * row;
#pragma GCC unroll 5
      for (int64_t s = 0; s < KW; ++s, w += B)
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          const Lanes<T, L> pixel = load<L>(at + (q >> 1) * row + (s + (q & 1)) * L);
#pragma GCC unroll 6
          for (int j = 0; j < B; ++j) a[j][q] += pixel * w[j];
        }
    }
#pragma GCC unroll 6
  for (int j = 0; j < B; ++j) pool_window<T, L>(a[j], y + j * next, winner + j * next);
}

// Copies samples [n, n + L) to a padded slab (C, rows, WP, L) that starts at pooled row `first`.
template <class T, int L>
[[gnu::always_inline]] inline void fill_slab(const Job<T>& job, int64_t n, int64_t first,
                                             int64_t rows, T* slab) {
  const Sizes& z = job.z;
  const int64_t samples = std::min<int64_t>(L, z.N - n);
  const int64_t sample = job.strides[0], column = job.strides[3];
  std::fill_n(slab, z.C * rows * z.WP * L, T(0));
  for (int64_t i = 0; i < z.C * rows; ++i) {
    const int64_t c = i / rows, h = 2 * first + i % rows - z.padding;
    if (h < 0 || h >= z.H) continue;
    const T* const from = job.x + n * sample + c * job.strides[1] + h * job.strides[2];
    T* const to = slab + (i * z.WP + z.padding) * L;
    if (column == 1) {
      scatter<L>(from, sample, z.columns(), samples, to, 1, job.lane_at);
    } else if (sample == 1 && samples == L) {
      for (int64_t j = 0; j < z.columns(); ++j) store<L>(to + j * L, load<L>(from + j * column));
    } else {
      for (int64_t j = 0; j < z.columns(); ++j)
        for (int64_t k = 0; k < samples; ++k) to[j * L + k] = from[k * sample + j * column];
    }
  }
}

// Computes pooled rows [first, last) of L samples, starting at n. y and winner are CHWN. Lanes
// beyond the batch are computed and dropped.
template <class T, int L>
[[gnu::always_inline]] inline void forward_samples(const Job<T>& job, int64_t n, int64_t first,
                                                   int64_t last, T* slab) {
  const Sizes& z = job.z;
  const int64_t rows = z.rows_under(last - first), plane = rows * z.WP * L;
  fill_slab<T, L>(job, n, first, rows, slab);
  constexpr int kMost = channels_at_once(L * sizeof(T));
  const int64_t blocks = ceil_div(z.K, kMost);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t k = z.K * block / blocks, count = z.K * (block + 1) / blocks - k;
    for (int64_t i = 0; i < (last - first) * z.PW; ++i) {
      const T* const corner = slab + (2 * (i / z.PW) * z.WP + 2 * (i % z.PW)) * L;
      const int64_t at = (k * z.windows() + first * z.PW + i) * z.N + n;
      const bool whole = n + L <= z.N;
      T rest[kMost * L];
      uint8_t rest_winner[kMost * L];
      T* const y = whole ? job.y + at : rest;
      uint8_t* const winner = whole ? job.winner + at : rest_winner;
      const int64_t next = whole ? z.windows() * z.N : L;
      with_kernel(
          z, [&]<int S>() __attribute__((always_inline)) {
            with_count<kMost>(
                count, [&]<int B>() __attribute__((always_inline)) {
                  sample_window<T, L, B, S>(z, corner, plane, job.w + k * z.taps(), job.b + k, y,
                                            winner, next);
                });
          });
      for (int64_t j = 0; !whole && j < count; ++j) {
        std::copy_n(rest + j * L, z.N - n, job.y + at + j * z.windows() * z.N);
        std::copy_n(rest_winner + j * L, z.N - n, job.winner + at + j * z.windows() * z.N);
      }
    }
  }
}

// ---- output channels in the lanes

// Computes B windows of one row for L channels. x: (C, HP, WP), starting at the first window's
// corner. w: (C, KH, KW, L).
template <class T, int L, int B, int S>
[[gnu::always_inline]] inline void channel_windows(const Sizes& z, const T* x, const T* w,
                                                   const T* b, T* y, uint8_t* winner) {
  const int64_t KH = S ? S : z.KH;
  Lanes<T, L> a[B][4];
#pragma GCC unroll 6
  for (int j = 0; j < B; ++j)
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) a[j][q] = load<L>(b);
  for (int64_t c = 0; c < z.C; ++c)
    for (int64_t r = 0; r < KH; ++r) {
      const T* const at = x + (c * z.HP + r) * z.WP;
      if constexpr (S > 0) {
        // Each pixel is loaded once and multiplied with every tap of the row that reaches it.
        Lanes<T, L> taps[S];
#pragma GCC unroll 5
        for (int s = 0; s < S; ++s, w += L) taps[s] = load<L>(w);
#pragma GCC unroll 2
        for (int d = 0; d < 2; ++d)
#pragma GCC unroll 16
          for (int column = 0; column < 2 * B + S - 1; ++column) {
            const T pixel = at[d * z.WP + column];
#pragma GCC unroll 5
            for (int s = 0; s < S; ++s)
              if (const int q = column - s; q >= 0 && q < 2 * B)
                a[q / 2][2 * d + q % 2] += taps[s] * pixel;
          }
      } else {
        for (int64_t s = 0; s < z.KW; ++s, w += L)
          for (int j = 0; j < B; ++j)
            for (int q = 0; q < 4; ++q)
              a[j][q] += load<L>(w) * at[(q >> 1) * z.WP + 2 * j + s + (q & 1)];
      }
    }
#pragma GCC unroll 6
  for (int j = 0; j < B; ++j) pool_window<T, L>(a[j], y + j * L, winner + j * L);
}

// Copies sample n of x to a padded image (C, HP, WP).
template <class T> void fill_image(const Job<T>& job, int64_t n, T* image) {
  const Sizes& z = job.z;
  const int64_t column = job.strides[3];
  std::fill_n(image, z.C * z.HP * z.WP, T(0));
  for (int64_t i = 0; i < z.C * z.HP; ++i) {
    const int64_t c = i / z.HP, h = i % z.HP - z.padding;
    if (h < 0 || h >= z.H) continue;
    const T* const from = job.x + n * job.strides[0] + c * job.strides[1] + h * job.strides[2];
    T* const to = image + i * z.WP + z.padding;
    if (column == 1) {
      std::copy_n(from, z.columns(), to);
    } else {
      for (int64_t j = 0; j < z.columns(); ++j) to[j] = from[j * column];
    }
  }
}

// Computes one sample. y and winner are NCHW.
template <class T, int L>
[[gnu::always_inline]] inline void forward_channels(const Job<T>& job, int64_t n, T* image) {
  const Sizes& z = job.z;
  fill_image(job, n, image);
  constexpr int kMost = windows_at_once(L * sizeof(T));
  const int64_t blocks = ceil_div(z.PW, kMost);
  for (int64_t k = 0; k < z.K; k += L) {
    for (int64_t i = 0; i < z.PH * blocks; ++i) {
      const int64_t ph = i / blocks, block = i % blocks, pw = z.PW * block / blocks;
      const int64_t count = z.PW * (block + 1) / blocks - pw;
      T y[kMost * L];
      uint8_t winner[kMost * L];
      with_kernel(
          z, [&]<int S>() __attribute__((always_inline)) {
            with_count<kMost>(
                count, [&]<int B>() __attribute__((always_inline)) {
                  channel_windows<T, L, B, S>(z, image + 2 * (ph * z.WP + pw), job.w + k * z.taps(),
                                              job.b + k, y, winner);
                });
          });
      for (int64_t l = 0; l < std::min<int64_t>(L, z.K - k); ++l) {
        const int64_t at = ((n * z.K + k + l) * z.PH + ph) * z.PW + pw;
        for (int64_t j = 0; j < count; ++j) job.y[at + j] = y[j * L + l];
        for (int64_t j = 0; j < count; ++j) job.winner[at + j] = winner[j * L + l];
      }
    }
  }
}

// Copies channels [k, k + count) of w as (taps, count), with zeros for channels beyond the last.
template <class T>
void pack(const Tensor& w, const std::vector<int64_t>& taps, int64_t k, int64_t count, T* to) {
  const int64_t K = w.dim(0), channel = w.strides()[0];
  const T* const from = w.ptr<T>();
  for (const int64_t tap : taps)
    for (int64_t j = 0; j < count; ++j) *to++ = k + j < K ? from[(k + j) * channel + tap] : 0;
}

template <class T> kernels::ConvActPool run_samples(Job<T> job, const Tensor& x, const Tensor& w) {
  const Sizes& z = job.z;
  const Shape shape{z.N, z.K, z.PH, z.PW};
  const kernels::ConvActPool out{Tensor(shape, x.dtype(), x.device(), kCHWN),
                                 Tensor(shape, DType::u8, x.device(), kCHWN)};
  const int64_t L = lane_count<T>(), most = channels_at_once(L * sizeof(T));
  const int64_t blocks = ceil_div(z.K, most);
  const Tensor packed = empty({z.K * z.taps()}, x);
  const std::vector<int64_t> taps = taps_in(w);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t k = z.K * i / blocks, next = z.K * (i + 1) / blocks;
    pack(w, taps, k, next - k, packed.ptr<T>() + k * z.taps());
  }
  std::vector<int64_t> lane_at(z.columns());
  for (size_t j = 0; j < lane_at.size(); ++j) lane_at[j] = int64_t(j) * L;
  job.w = packed.ptr<T>(), job.y = out.y.ptr<T>(), job.winner = out.winner.ptr<uint8_t>();
  job.lane_at = lane_at.data();
  const int64_t groups = ceil_div(z.N, L), parts = ceil_div(z.PH, kRows);
  const PerThread<T> slab(z.C * z.rows_under(std::min(kRows, z.PH)) * z.WP * L);
  parallel_for(groups * parts, 1, [&](int64_t begin, int64_t end) {
    in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % parts * kRows, last = std::min(first + kRows, z.PH);
        forward_samples<T, L>(job, i / parts * L, first, last, slab.mine());
      }
    });
  });
  return out;
}

template <class T>
kernels::ConvActPool run_channels(Job<T> job, const Tensor& x, const Tensor& w, const Tensor& b) {
  const Sizes& z = job.z;
  const kernels::ConvActPool out{empty({z.N, z.K, z.PH, z.PW}, x),
                                 Tensor({z.N, z.K, z.PH, z.PW}, DType::u8, x.device())};
  const int64_t L = lane_count<T>(), K = round_up(z.K, L);
  const Tensor packed = empty({K * (z.taps() + 1)}, x);
  T* const bias = packed.ptr<T>() + K * z.taps();
  const std::vector<int64_t> taps = taps_in(w);
  for (int64_t k = 0; k < K; k += L) pack(w, taps, k, L, packed.ptr<T>() + k * z.taps());
  pack(b, {0}, 0, K, bias);
  job.w = packed.ptr<T>(), job.b = bias;
  job.y = out.y.ptr<T>(), job.winner = out.winner.ptr<uint8_t>();
  const PerThread<T> image(z.C * z.HP * z.WP);
  parallel_for(z.N, 1, [&](int64_t begin, int64_t end) {
    in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t n = begin; n < end; ++n) forward_channels<T, L>(job, n, image.mine());
    });
  });
  return out;
}

}  // namespace

static kernels::ConvActPool forward(const Tensor& x, const Tensor& w, const Tensor& b_,
                                    int64_t padding) {
  const Tensor b = contiguous(b_);
  return visit_float(x.dtype(), [&]<class T>(T) {
    const Sizes z(x.shape(), w.shape(), padding);
    const Job<T> job{z, x.ptr<T>(), x.strides(), nullptr, b.ptr<T>(), nullptr, nullptr, nullptr};
    const int64_t L = lane_count<T>(), with_samples = ceil_div(z.N, L) * z.K;
    const int64_t with_channels = ceil_div(z.K, L) * z.N;  // vectors per pixel
    return with_samples <= with_channels ? run_samples(job, x, w) : run_channels(job, x, w, b);
  });
}
static const bool cpu = kernels::conv_act_pool.on(Device::cpu, forward);

}  // namespace bellows
