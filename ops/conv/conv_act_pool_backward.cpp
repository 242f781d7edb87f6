// conv_act_pool backward on the CPU: computes dw, db and dx from the winners.
//
// Only one pixel in four of a pooled convolution has a gradient, at another place in each sample
// and channel. So samples are processed one by one, and the vector lanes hold the patch of x under
// a winner: rows of KW * C contiguous elements in NHWC. This takes a quarter of the multiplications
// of a dense backward, which samples in the lanes would need.
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/base/lanes.h"
#include "ops/base/per_thread.h"
#include "ops/conv/conv2d_cpu.h"
#include "ops/conv/conv_act_pool.h"

namespace bellows {

using conv2d_cpu::taps_in;
using Sizes = conv2d_cpu::PooledSizes;

namespace {

constexpr int64_t kSamples = 16;  // samples per chunk; each chunk has its own sums of dw and db
constexpr int64_t kMaskBits = 32;

// Offsets of the elements that one loop visits, in its order.
using Offsets = std::vector<int64_t>;
Offsets offsets(int64_t outer, int64_t outer_step, int64_t inner, int64_t inner_step) {
  Offsets at;
  at.reserve(outer * inner);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < inner; ++j) at.push_back(i * outer_step + j * inner_step);
  return at;
}

template <class T> struct Job {
  Job(const Tensor& dy, const Tensor& winner, const Tensor& x, const Tensor& w, int64_t padding)
      : z(x.shape(), w.shape(), padding),
        dy(dy),
        winner(winner),
        x(x),
        dy_at(offsets(z.PH, dy.strides()[2], z.PW, dy.strides()[3])),
        winner_at(offsets(z.PH, winner.strides()[2], z.PW, winner.strides()[3])),
        x_at(offsets(z.columns(), x.strides()[3], z.C, x.strides()[1])),
        pixel_row(z.WP * z.C),
        sample(round_up(z.HP * pixel_row + 4 * kSamples, 16)),
        winners(round_up(z.windows(), kSamples)) {
    const int64_t row = z.KW * z.C, lanes = lane_count<T>();
    half = lanes == 16 && row <= 8;
    patch_row = round_up(row, half ? 8 : lanes);
    for (int64_t c = 0; c < z.C; ++c)
      for (int64_t r = 0; r < z.KH; ++r)
        for (int64_t s = 0; s < z.KW; ++s) patch_at.push_back(r * patch_row + s * z.C + c);
    corner.resize(z.K * winners);
    for (int64_t ph = 0; ph < z.PH; ++ph)
      for (int64_t pw = 0; pw < z.PW; ++pw)
        corner[ph * z.PW + pw] = int32_t(2 * (ph * z.WP + pw) * z.C);
    for (int64_t k = 1; k < z.K; ++k)
      std::copy_n(corner.data(), z.windows(), corner.data() + k * winners);
  }
  int64_t patch() const { return z.KH * patch_row; }

  Sizes z;
  Tensor dy, winner, x;
  Offsets dy_at, winner_at, x_at;
  Offsets patch_at;  // offset of each element of w (C, KH, KW) in a patch
  // Padded NHWC image: elements per row, and in all, including slack for reads past its end.
  int64_t pixel_row, sample;
  int64_t winners;              // windows of one channel, padded to whole vectors
  bool half;                    // patches are so narrow that half a vector holds a row
  int64_t patch_row;            // KW * C, padded to whole vectors
  std::vector<int32_t> corner;  // offset of each window in the padded image, once per channel
};

// Scratch memory of one thread, for up to kSamples samples.
template <class T> struct Scratch {
  T *x, *dx;        // (sample, HP, WP, C)
  T* dy;            // (sample, K, winners)
  uint8_t* winner;  // laid out like dy
  int32_t* at;      // (K, winners), of one sample: offsets of the patches
  int32_t* masks;   // (K / 32, 4, winners): bit k: channel k won at this pixel of the window
};

// ---- one sample

// Sets bit k % 32 of mask (k / 32, q, window) if channel k won at pixel q of that window.
template <class T, int L>
[[gnu::always_inline]] inline void mark_winners(const Job<T>& job, const int32_t* winner,
                                                int32_t* masks) {
  const int64_t windows = job.winners;
  for (int64_t first = 0; first < job.z.K; first += kMaskBits, masks += 4 * windows)
    for (int64_t p = 0; p < windows; p += L) {
      Lanes<int32_t, L> mask[4] = {};
      for (int64_t k = first; k < std::min(first + kMaskBits, job.z.K); ++k) {
        const auto which = load<L>(winner + k * windows + p);
        const auto bit = Lanes<int32_t, L>{} + int32_t(1u << (k - first));
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) mask[q] = which == q ? mask[q] | bit : mask[q];
      }
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) store<L>(masks + q * windows + p, mask[q]);
    }
}

// Converts winners to offsets of patches, zeroes the gradients of windows without a winner, and
// adds up db.
template <class T, int L>
[[gnu::always_inline]] inline void place_winners(const Job<T>& job, T* dy, int32_t* at, T* db) {
  const int32_t right = int32_t(job.z.C), down = int32_t(job.pixel_row);
  const int32_t* const corner = job.corner.data();
  for (int64_t i = 0; i < job.z.K * job.winners; ++i) {
    dy[i] = at[i] == kernels::kNoWinner ? T(0) : dy[i];
    at[i] = corner[i] + (at[i] >> 1 & 1) * down + (at[i] & 1) * right;
  }
  for (int64_t k = 0; k < job.z.K; ++k) {
    Lanes<T, L> sum{};
    for (int64_t p = 0; p < job.winners; p += L) sum += load<L>(dy + k * job.winners + p);
    for (int l = 0; l < L; ++l) db[k] += sum[l];
  }
}

// dw[r][j] += dy * x over the winners of one channel, for R rows and V vectors of the patch.
template <class T, int L, int R, int V>
[[gnu::always_inline]] inline void add_dw(const T* x, int64_t row, const T* dy, const int32_t* at,
                                          int64_t winners, T* dw, int64_t patch_row) {
  constexpr int kSums = R * V < 8 ? 2 : 1;  // enough independent sums to hide the latency
  Lanes<T, L> sum[kSums][R][V] = {};
  const auto add = [&](int u, int64_t p) __attribute__((always_inline)) {
#pragma GCC unroll 5
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[u][r][j] += load<L>(x + at[p] + r * row + j * L) * dy[p];
  };
  int64_t p = 0;
  for (; p + kSums <= winners; p += kSums)
#pragma GCC unroll 2
    for (int u = 0; u < kSums; ++u) add(u, p + u);
  for (; p < winners; ++p) add(0, p);
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < V; ++j)
      for (int u = 0; u < kSums; ++u) add_to<L>(dw + r * patch_row + j * L, sum[u][r][j]);
}

// dx[r][j] += dy * w over the channels that won at a pixel, for R rows and V vectors of the patch.
template <class T, int L, int R, int V>
[[gnu::always_inline]] inline void add_dx(const Job<T>& job, const int32_t* masks, const T* dy,
                                          const T* w, T* dx) {
  const int64_t row = job.pixel_row, patch = job.patch();
  for (int64_t p = 0; p < job.z.windows(); ++p)
    for (int q = 0; q < 4; ++q) {
      uint32_t mask = uint32_t(masks[q * job.winners + p]);
      if (mask == 0) continue;
      Lanes<T, L> sum[R][V] = {};
      for (; mask; mask &= mask - 1) {
        const int k = __builtin_ctz(mask);
#pragma GCC unroll 5
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int j = 0; j < V; ++j)
            sum[r][j] +=
                load<L>(w + k * patch + r * job.patch_row + j * L) * dy[k * job.winners + p];
      }
      T* const to = dx + job.corner[p] + (q >> 1) * row + (q & 1) * job.z.C;
      for (int r = 0; r < R; ++r)
        for (int j = 0; j < V; ++j) add_to<L>(to + r * row + j * L, sum[r][j]);
    }
}

// Cuts the patches into blocks of R rows and V vectors that fit in the registers.
template <class T, int L, int S>
[[gnu::always_inline]] inline void backward_sample(const Job<T>& job, const T* x, const T* dy,
                                                   const int32_t* at, const int32_t* masks,
                                                   const T* w, T* dw, T* dx) {
  constexpr int R = S ? S : 1;
  const int64_t row = job.pixel_row, winners = job.winners, K = job.z.K;
  for (int64_t r = 0; r < job.z.KH; r += R) {
    int64_t j = 0;
    const auto add = [&]<int V>(std::integral_constant<int, V>) __attribute__((always_inline)) {
      const int64_t in_x = r * row + j, in_w = r * job.patch_row + j;
      for (int64_t k = 0; k < K; ++k)
        add_dw<T, L, R, V>(x + in_x, row, dy + k * winners, at + k * winners, job.z.windows(),
                           dw + k * job.patch() + in_w, job.patch_row);
      for (int64_t k = 0; dx && k < K; k += kMaskBits)
        add_dx<T, L, R, V>(job, masks + k / kMaskBits * 4 * winners, dy + k * winners,
                           w + k * job.patch() + in_w, dx + in_x);
      j += V * L;
    };
    while (j + 4 * L <= job.patch_row) add(std::integral_constant<int, 4>());
    if (j + 2 * L <= job.patch_row) add(std::integral_constant<int, 2>());
    if (j < job.patch_row) add(std::integral_constant<int, 1>());
  }
}

// ---- a chunk of samples

template <class T, int L>
[[gnu::always_inline]] inline void load_samples(const Job<T>& job, int64_t n, int64_t samples,
                                                const Scratch<T>& s) {
  const Sizes& z = job.z;
  std::fill_n(s.x, samples * job.sample, T(0));
  std::fill_n(s.winner, samples * z.K * job.winners, kernels::kNoWinner);
  const int64_t rows = std::min(z.HP - z.padding, z.H);
  for (int64_t i = 0; i < samples; i += L) {
    const int64_t count = std::min<int64_t>(L, samples - i);
    const Strides &x = job.x.strides(), &dy = job.dy.strides(), &winner = job.winner.strides();
    for (int64_t h = 0; h < rows; ++h)
      gather<L>(job.x.template ptr<T>() + (n + i) * x[0] + h * x[2], x[0], job.x_at.data(),
                int64_t(job.x_at.size()), count,
                s.x + i * job.sample + ((h + z.padding) * z.WP + z.padding) * z.C, job.sample);
    for (int64_t k = 0; k < z.K; ++k) {
      const int64_t to = (i * z.K + k) * job.winners, next = z.K * job.winners;
      gather<L>(job.dy.template ptr<T>() + (n + i) * dy[0] + k * dy[1], dy[0], job.dy_at.data(),
                z.windows(), count, s.dy + to, next);
      gather<L>(job.winner.template ptr<uint8_t>() + (n + i) * winner[0] + k * winner[1], winner[0],
                job.winner_at.data(), z.windows(), count, s.winner + to, next);
    }
  }
}

template <class T, int L>
[[gnu::always_inline]] inline void store_dx(const Job<T>& job, int64_t n, int64_t samples,
                                            const T* from, const Tensor& dx, const Offsets& at) {
  const Sizes& z = job.z;
  const Strides& strides = dx.strides();
  for (int64_t i = 0; i < samples; i += L)
    for (int64_t h = 0; h < std::min(z.HP - z.padding, z.H); ++h)
      scatter<L>(from + i * job.sample + ((h + z.padding) * z.WP + z.padding) * z.C, job.sample,
                 int64_t(at.size()), std::min<int64_t>(L, samples - i),
                 dx.ptr<T>() + (n + i) * strides[0] + h * strides[2], strides[0], at.data());
}

// Packs w (K, C, KH, KW) as (K, KH, patch_row); each row is (KW, C) and padding zeros.
template <class T> Tensor pack(const Job<T>& job, const Tensor& w) {
  const Tensor packed = full({job.z.K * job.patch()}, 0, w);
  const std::vector<int64_t> taps = taps_in(w);
  for (int64_t k = 0; k < job.z.K; ++k) {
    const T* const from = w.ptr<T>() + k * w.strides()[0];
    T* const to = packed.ptr<T>() + k * job.patch();
    for (size_t t = 0; t < taps.size(); ++t) to[job.patch_at[t]] = from[taps[t]];
  }
  return packed;
}

// Adds up the chunks' sums in order and writes dw, in the layout of w, and db.
template <class T>
void store_dw(const Job<T>& job, T* parts, int64_t chunks, const Tensor& dw, const Tensor& db) {
  const Sizes& z = job.z;
  const int64_t part = z.K * (job.patch() + 1);
  for (int64_t chunk = 1; chunk < chunks; ++chunk)
    for (int64_t i = 0; i < part; ++i) parts[i] += parts[chunk * part + i];
  const std::vector<int64_t> taps = taps_in(dw);
  for (int64_t k = 0; k < z.K; ++k) {
    const T* const from = parts + k * job.patch();
    T* const to = dw.ptr<T>() + k * dw.strides()[0];
    for (size_t t = 0; t < taps.size(); ++t) to[taps[t]] = from[job.patch_at[t]];
  }
  std::copy_n(parts + z.K * job.patch(), z.K, db.ptr<T>());
  dw.raise_version();
  db.raise_version();
}

template <class T, int L>
[[gnu::always_inline]] inline void backward_chunk(const Job<T>& job, int64_t first, int64_t samples,
                                                  const Scratch<T>& s, const T* w, T* sums) {
  const int64_t winners = job.z.K * job.winners;
  load_samples<T, L>(job, first, samples, s);
  if (w) std::fill_n(s.dx, samples * job.sample, T(0));
  for (int64_t i = 0; i < samples; ++i) {
    T* const dy = s.dy + i * winners;
    for (int64_t k = 0; k < winners; ++k) s.at[k] = s.winner[i * winners + k];
    if (w) mark_winners<T, L>(job, s.at, s.masks);
    place_winners<T, L>(job, dy, s.at, sums + job.z.K * job.patch());
    kernels::with_kernel(
        job.z.KH, job.z.KW, [&]<int S>() __attribute__((always_inline)) {
          const T* const x = s.x + i * job.sample;
          T* const dx = w ? s.dx + i * job.sample : nullptr;
          if constexpr (L == 16) {
            if (job.half) return backward_sample<T, 8, S>(job, x, dy, s.at, s.masks, w, sums, dx);
          }
          backward_sample<T, L, S>(job, x, dy, s.at, s.masks, w, sums, dx);
        });
  }
}

template <class T>
Tensor run(const Job<T>& job, const Tensor& w, const Tensor& dw, const Tensor& db, bool needs_dx) {
  const Sizes& z = job.z;
  const int64_t chunks = ceil_div(z.N, kSamples), samples = std::min(z.N, kSamples);
  const int64_t part = z.K * (job.patch() + 1), winners = samples * z.K * job.winners;
  // At least one chunk: without samples, the gradients of the weights are zeros.
  const Tensor parts = full({std::max<int64_t>(chunks, 1) * part}, 0, w);
  const Tensor packed = needs_dx ? pack(job, w) : Tensor();
  const int64_t images = samples * job.sample, row = z.K * job.winners;
  const PerThread<T> values(2 * images + winners);
  const PerThread<uint8_t> which(winners);
  const PerThread<int32_t> marks(row + round_up(z.K, kMaskBits) / kMaskBits * 4 * job.winners);
  Tensor dx;
  Offsets dx_at;
  if (needs_dx) {
    dx = Tensor(job.x.shape(), w.dtype(), w.device(), kCHWN);
    if (z.columns() < z.W || z.HP - z.padding < z.H) fill(dx, 0);
    dx_at = offsets(z.columns(), dx.strides()[3], z.C, dx.strides()[1]);
  }
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    T* const x = values.mine();
    const Scratch<T> s{
        x, x + images, x + 2 * images, which.mine(), marks.mine(), marks.mine() + row};
    in_lanes<T>([&]<int L>() __attribute__((always_inline)) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * kSamples, count = std::min(kSamples, z.N - first);
        backward_chunk<T, L>(job, first, count, s, needs_dx ? packed.ptr<T>() : nullptr,
                             parts.ptr<T>() + chunk * part);
        if (needs_dx) store_dx<T, L>(job, first, count, s.dx, dx, dx_at);
      }
    });
  });
  store_dw(job, parts.ptr<T>(), chunks, dw, db);
  return dx;
}

}  // namespace

static Tensor backward(const Tensor& dy, const Tensor& winner, const Tensor& x, const Tensor& w,
                       const Tensor& dw, const Tensor& db, int64_t padding, bool needs_dx) {
  return visit_float(x.dtype(), [&]<class T>(T) {
    const Job<T> job(dy, winner, x, w, padding);
    trace::note_kernel("samples in lanes");
    return run(job, w, dw, db, needs_dx);
  });
}
static const bool cpu = kernels::conv_act_pool_backward.on(Device::cpu, backward);

}  // namespace bellows
