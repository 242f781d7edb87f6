// conv_act_pool forward on the CPU: convolution, relu, pooling and winners in one pass.
//
// The vector lanes hold samples of the batch, for any number of channels. If the batch would leave
// more lanes empty, they hold output channels. In both cases a block of accumulators covers the
// four pixels of pooling windows, so only the result is written. Both compute each output as the
// same sum in the same order.
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/lanes.h"
#include "ops/base/per_thread.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/conv/conv_act_pool.h"

namespace bellows {

using conv2d_cpu::taps_in;
using Sizes = conv2d_cpu::PooledSizes;

namespace {

template <class T> struct Job {
  Sizes z;
  const T* x;
  Strides strides;         // strides of x
  const T *w, *b;          // w in blocks of channels: (block, C, KH, KW, channels of the block)
  const int64_t* lane_at;  // with samples in the lanes: offset of each column in a padded row
  T* y;
  uint8_t* winner;
};

// ---- a block of accumulators

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

// Computes a block: one window of B channels for L samples, or B windows of one row for L channels.
// x: the first window's corner in (C, rows, WP, L) or (C, rows, WP). w: (C, KH, KW, B) or (C, KH,
// KW, L), from channel k on. The B results are `next` apart in y and winner.
template <bool samples, int B, int S, int L, class T>
[[gnu::always_inline]] inline void compute(const Job<T>& job, int64_t k, const T* x, int64_t plane,
                                           T* y, uint8_t* winner, int64_t next) {
  const Sizes& z = job.z;
  const int64_t KH = S ? S : z.KH, KW = S ? S : z.KW, row = z.WP * (samples ? L : 1);
  const T *w = job.w + k * z.taps(), *const b = job.b + k;
  Lanes<T, L> a[B][4];
#pragma GCC unroll 6
  for (int j = 0; j < B; ++j)
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q)
      if constexpr (samples)
        a[j][q] = Lanes<T, L>{} + b[j];
      else
        a[j][q] = load<L>(b);
  for (int64_t c = 0; c < z.C; ++c)
    for (int64_t r = 0; r < KH; ++r) {
      const T* const at = x + c * plane + r * row;
      if constexpr (samples) {
#pragma GCC unroll 5
        for (int64_t s = 0; s < KW; ++s, w += B)
#pragma GCC unroll 4
          for (int q = 0; q < 4; ++q) {
            const Lanes<T, L> pixel = load<L>(at + (q >> 1) * row + (s + (q & 1)) * L);
#pragma GCC unroll 6
            for (int j = 0; j < B; ++j) a[j][q] += pixel * w[j];
          }
      } else if constexpr (S > 0) {
        // Each pixel is loaded once and multiplied with every tap of the row that reaches it.
        Lanes<T, L> taps[S];
#pragma GCC unroll 5
        for (int s = 0; s < S; ++s, w += L) taps[s] = load<L>(w);
#pragma GCC unroll 2
        for (int d = 0; d < 2; ++d)
#pragma GCC unroll 16
          for (int column = 0; column < 2 * B + S - 1; ++column) {
            const T pixel = at[d * row + column];
#pragma GCC unroll 5
            for (int s = 0; s < S; ++s)
              if (const int q = column - s; q >= 0 && q < 2 * B)
                a[q / 2][2 * d + q % 2] += taps[s] * pixel;
          }
      } else {
        for (int64_t s = 0; s < KW; ++s, w += L)
          for (int j = 0; j < B; ++j)
            for (int q = 0; q < 4; ++q)
              a[j][q] += load<L>(w) * at[(q >> 1) * row + 2 * j + s + (q & 1)];
      }
    }
#pragma GCC unroll 6
  for (int j = 0; j < B; ++j) pool_window<T, L>(a[j], y + j * next, winner + j * next);
}

// ---- parts of the output, with loops compiled for each size of block and kernel

// Samples in the lanes: windows of pooled rows [first, last) for the samples from n on and B
// channels from k on. Channels in the lanes: windows of these rows from column pw on, B of each
// row, for sample n and the channels from k on. x: the slab or the image that has the rows.
template <class T> struct Part {
  const T* x;
  int64_t n, k, first, last, pw;
};

// y and winner are CHWN. Lanes beyond the batch are computed and dropped.
template <class T, int L, int B, int S>
[[gnu::always_inline]] inline void compute_samples(const Job<T>& job, const Part<T>& part) {
  const Sizes& z = job.z;
  const int64_t n = part.n, row = z.WP * L, next = z.windows() * z.N,
                plane = z.rows_under(part.last - part.first) * row;
  int64_t at = (part.k * z.windows() + part.first * z.PW) * z.N + n;
  for (int64_t i = 0; i < part.last - part.first; ++i)
    for (int64_t pw = 0; pw < z.PW; ++pw, at += z.N) {
      const T* const x = part.x + 2 * i * row + 2 * pw * L;
      if (n + L <= z.N) {
        compute<true, B, S, L>(job, part.k, x, plane, job.y + at, job.winner + at, next);
        continue;
      }
      T y[B * L];
      uint8_t winner[B * L];
      compute<true, B, S, L>(job, part.k, x, plane, y, winner, L);
      for (int64_t j = 0; j < B; ++j) {
        std::copy_n(y + j * L, z.N - n, job.y + at + j * next);
        std::copy_n(winner + j * L, z.N - n, job.winner + at + j * next);
      }
    }
}

// y and winner are NCHW.
template <class T, int L, int B, int S>
[[gnu::always_inline]] inline void compute_channels(const Job<T>& job, const Part<T>& part) {
  const Sizes& z = job.z;
  for (int64_t ph = part.first; ph < part.last; ++ph) {
    T y[B * L];
    uint8_t winner[B * L];
    compute<false, B, S, L>(job, part.k, part.x + 2 * (ph * z.WP + part.pw), z.HP * z.WP, y, winner,
                            L);
    for (int64_t l = 0; l < std::min<int64_t>(L, z.K - part.k); ++l) {
      const int64_t at = ((part.n * z.K + part.k + l) * z.PH + ph) * z.PW + part.pw;
      for (int64_t j = 0; j < B; ++j) job.y[at + j] = y[j * L + l];
      for (int64_t j = 0; j < B; ++j) job.winner[at + j] = winner[j * L + l];
    }
  }
}

template <class T> using ComputePart = void (*)(const Job<T>& job, const Part<T>& part);
template <class T, auto compute>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq")]] void in_avx512(const Job<T>& job,
                                                                     const Part<T>& part) {
  compute(job, part);
}
template <bool samples, class T, int L, int B, int S> constexpr ComputePart<T> function_for() {
  constexpr auto compute = samples ? compute_samples<T, L, B, S> : compute_channels<T, L, B, S>;
  if constexpr (L == 16)
    return in_avx512<T, compute>;
  else
    return compute;
}

// Returns the largest B for which the accumulators fit in the registers beside their operands.
template <bool samples> constexpr int most_at_once(int64_t vector_bytes) {
  return vector_bytes != 64 ? 2 : samples ? 6 : 5;
}

// Returns the functions for a size of kernel: that for B is at [B - 1].
template <bool samples, class T, int L> const ComputePart<T>* parts_for(const Sizes& z) {
  const ComputePart<T>* found = nullptr;
  kernels::with_kernel(z.KH, z.KW, [&]<int S>() {
    found = [&]<int... b>(std::integer_sequence<int, b...>) {
      static constexpr ComputePart<T> all[] = {function_for<samples, T, L, b + 1, S>()...};
      return all;
    }
    (std::make_integer_sequence<int, most_at_once<samples>(L * sizeof(T))>());
  });
  return found;
}

// ---- a sample or L samples

// Copies samples [n, n + L) to a padded slab (C, rows, WP, L) that starts at pooled row `first`.
template <int L, class T>
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
      if constexpr (L == 1)
        std::copy_n(from, z.columns(), to);
      else
        scatter<L>(from, sample, z.columns(), samples, to, 1, job.lane_at);
    } else if (sample == 1 && samples == L) {
      for (int64_t j = 0; j < z.columns(); ++j) store<L>(to + j * L, load<L>(from + j * column));
    } else {
      for (int64_t j = 0; j < z.columns(); ++j)
        for (int64_t k = 0; k < samples; ++k) to[j * L + k] = from[k * sample + j * column];
    }
  }
}

// Computes pooled rows [first, last) of L samples, starting at n.
template <class T, int L>
[[gnu::always_inline]] inline void forward_samples(const Job<T>& job, int64_t n, int64_t first,
                                                   int64_t last, T* slab) {
  const Sizes& z = job.z;
  fill_slab<L>(job, n, first, z.rows_under(last - first), slab);
  const ComputePart<T>* const parts = parts_for<true, T, L>(z);
  const int64_t blocks = ceil_div(z.K, most_at_once<true>(L * sizeof(T)));
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t k = z.K * i / blocks;
    parts[z.K * (i + 1) / blocks - k - 1](job, {slab, n, k, first, last, 0});
  }
}

// Computes sample n, L channels at a time.
template <class T, int L>
[[gnu::always_inline]] inline void forward_channels(const Job<T>& job, int64_t n, T* image) {
  const Sizes& z = job.z;
  fill_slab<1>(job, n, 0, z.HP, image);
  const ComputePart<T>* const parts = parts_for<false, T, L>(z);
  const int64_t blocks = ceil_div(z.PW, most_at_once<false>(L * sizeof(T)));
  for (int64_t k = 0; k < z.K; k += L)
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t pw = z.PW * i / blocks;
      parts[z.PW * (i + 1) / blocks - pw - 1](job, {image, n, k, 0, z.PH, pw});
    }
}

// ---- the batch

constexpr int64_t kRows = 8;  // pooled rows of a chunk

// Copies channels [k, k + count) of w as (taps, count), with zeros for channels beyond the last.
template <class T>
void pack(const Tensor& w, const std::vector<int64_t>& taps, int64_t k, int64_t count, T* to) {
  const int64_t K = w.dim(0), channel = w.strides()[0];
  const T* const from = w.ptr<T>();
  for (const int64_t tap : taps)
    for (int64_t j = 0; j < count; ++j) *to++ = k + j < K ? from[(k + j) * channel + tap] : 0;
}

template <class T> void run_samples(Job<T>& job, const Tensor& w) {
  const Sizes& z = job.z;
  const int64_t L = lane_count<T>();
  const int64_t blocks = ceil_div(z.K, most_at_once<true>(L * sizeof(T)));
  const Tensor packed = empty({z.K * z.taps()}, w);
  const std::vector<int64_t> taps = taps_in(w);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t k = z.K * i / blocks, next = z.K * (i + 1) / blocks;
    pack(w, taps, k, next - k, packed.ptr<T>() + k * z.taps());
  }
  std::vector<int64_t> lane_at(z.columns());
  for (size_t j = 0; j < lane_at.size(); ++j) lane_at[j] = int64_t(j) * L;
  job.w = packed.ptr<T>(), job.lane_at = lane_at.data();
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
}

template <class T> void run_channels(Job<T>& job, const Tensor& w, const Tensor& b) {
  const Sizes& z = job.z;
  const int64_t L = lane_count<T>(), K = round_up(z.K, L);
  const Tensor packed = empty({K * (z.taps() + 1)}, w);
  T* const bias = packed.ptr<T>() + K * z.taps();
  const std::vector<int64_t> taps = taps_in(w);
  for (int64_t k = 0; k < K; k += L) pack(w, taps, k, L, packed.ptr<T>() + k * z.taps());
  pack(b, {0}, 0, K, bias);
  job.w = packed.ptr<T>(), job.b = bias;
  const PerThread<T> image(z.C * z.HP * z.WP);
  parallel_for(z.N, 1, [&](int64_t begin, int64_t end) {
    in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t n = begin; n < end; ++n) forward_channels<T, L>(job, n, image.mine());
    });
  });
}

}  // namespace

static kernels::ConvActPool forward(const Tensor& x, const Tensor& w, const Tensor& b_,
                                    int64_t padding) {
  const Tensor b = contiguous(b_);
  const Sizes z(x.shape(), w.shape(), padding);
  return visit_float(x.dtype(), [&]<class T>(T) {
    const int64_t L = lane_count<T>();  // ceil_div(...) * ...: vectors per pixel
    const bool samples = ceil_div(z.N, L) * z.K <= ceil_div(z.K, L) * z.N;
    const MemoryFormat& format = samples ? kCHWN : kNCHW;
    const Shape shape{z.N, z.K, z.PH, z.PW};
    const kernels::ConvActPool out{Tensor(shape, x.dtype(), x.device(), format),
                                   Tensor(shape, DType::u8, x.device(), format)};
    Job<T> job{z,          x.ptr<T>(), x.strides(),    nullptr,
               b.ptr<T>(), nullptr,    out.y.ptr<T>(), out.winner.ptr<uint8_t>()};
    trace::note_kernel(samples ? "samples in lanes" : "channels in lanes");
    samples ? run_samples(job, w) : run_channels(job, w, b);
    return out;
  });
}
static const bool cpu = kernels::conv_act_pool.on(Device::cpu, forward);

}  // namespace bellows
