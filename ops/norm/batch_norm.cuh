// Parts that the batch_norm kernels on the GPU share.
//
// x is a list of rows of channels * inner elements. NHWC and (N, C) have one row per pixel and
// inner = 1; NCHW has one row per image and inner = H * W. A thread handles the same piece of 16
// bytes in several rows, so it loads the parameters of its channels only once.
#pragma once
#include <bit>
#include "core/base/divisor.h"
#include "core/device/launch.cuh"
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/line.cuh"
#include "core/tensor/map.cuh"
#include "ops/norm/batch_norm.h"

namespace bellows::batch_norm_cuda {

// ---- rows and their pieces

struct Rows {
  explicit Rows(const Tensor& x)
      : nhwc(x.rank() == 4 && format_of(x) == kNHWC),
        by_pixel(nhwc || x.rank() == 2 || x.dim(2) * x.dim(3) == 1),
        inner(by_pixel ? 1 : std::max<int64_t>(x.dim(2) * x.dim(3), 1)),
        channels(int(x.dim(1))),
        length(channels * inner.size),
        count(x.numel() / std::max(length, 1)) {}

  const MemoryFormat& format() const { return nhwc ? kNHWC : kNCHW; }
  Tensor like(const Tensor& x) const {
    return x.rank() == 4 ? Tensor(x.shape(), x.dtype(), x.device(), format()) : empty(x.shape(), x);
  }
  // Returns t in this memory format, aligned for reads of whole pieces.
  Tensor ordered(const Tensor& t) const {
    const Tensor dense = t.rank() == 4 ? contiguous(t, format()) : contiguous(t);
    if (fit_packs(dense.bytes())) return dense;
    const Tensor moved = like(t);
    kernels::copy(moved, dense);
    return moved;
  }
  // Returns the number of elements per channel.
  int64_t of_a_channel() const { return count * inner.size; }
  // Returns the offset of a row's first element in channel c.
  __device__ int64_t first(int64_t row, int c) const {
    return row * length + int64_t(c) * inner.size;
  }

  bool nhwc, by_pixel;
  Divisor inner;
  int channels, length;
  int64_t count;
};

// Relu bits: each byte belongs to one piece, and bit k is set if y > 0 or NaN.
struct Bits {
  Bits(const Tensor& bits, const Tensor& x)
      : at(bits.defined() ? bits.ptr<uint8_t>() : nullptr),
        log2(at && x.numel() > 0 ? std::countr_zero(uint64_t(x.numel() / bits.numel())) : 0) {}
  // Returns the bits from element i on; all are set if there is no tensor of bits.
  __device__ unsigned from(int64_t i) const {
    return at ? unsigned(at[i >> log2]) >> (i & ((1 << log2) - 1)) : ~0u;
  }
  const uint8_t* at;
  int log2;  // log2 of the elements per byte
};

// Statistics that normalize x.
template <class A> struct Batch {
  Batch(const Tensor& statistics, double eps)
      : mean(statistics.ptr<A>()), var(mean + statistics.dim(1)), eps(A(eps)) {}
  __device__ A inverse_deviation(int c) const { return 1 / std::sqrt(var[c] + eps); }
  const A *mean, *var;
  A eps;
};

// ---- two sums over the elements of each channel

// Forward: sums of d = x - pivot and of d * d. The pivot avoids cancellation between large squares.
// Between launches: mean of a group, and sum of the squared distances from it. Backward: sums of dy
// and of dy * (x - mean).
template <class A> struct Sums {
  A first = 0, second = 0;
  __device__ Sums operator+(const Sums& o) const { return {first + o.first, second + o.second}; }
};

// Running statistics on the device; `mean` is null if there is nothing to update.
template <class A> struct Running {
  explicit Running(const RunningUpdate& r)
      : mean(r.mean.defined() ? r.mean.ptr<A>() : nullptr),
        var(mean ? r.var.ptr<A>() : nullptr),
        batches(r.batches.defined() ? r.batches.ptr<int64_t>() : nullptr),
        momentum(r.momentum),
        unbiased(r.unbiased) {}
  // The thread of channel 0 counts the batch.
  __device__ void update(int c, double batch_mean, double batch_var) const {
    if (mean) {
      mean[c] = A(kernels::moved(mean[c], batch_mean, momentum));
      var[c] = A(kernels::moved(var[c], batch_var, momentum, unbiased));
    }
    if (batches && c == 0) ++*batches;
  }
  A *mean, *var;
  int64_t* batches;
  double momentum, unbiased;
};

// ---- elementwise formulas for a piece, with the parameters of its channels

// y = (x - mean) * scale + shift + residual, then relu if there are bits.
template <int K, class A> struct Forward {
  A mean[K], scale[K], shift[K];

  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* bias, int c) {
    mean[k] = batch.mean[c], scale[k] = weight[c] * batch.inverse_deviation(c), shift[k] = bias[c];
  }
  template <bool adds, class T>
  __device__ void put(const T* x, const T* residual, T* y, uint8_t* bits, int64_t i) const {
    const AlignedVector<T, K> in = load<K>(x + i);
    AlignedVector<T, K> added;
    if constexpr (adds) added = load<K>(residual + i);
    A out[K];
    unsigned on = 0;
    for (int k = 0; k < K; ++k) {
      A v = (A(in.at[k]) - mean[k]) * scale[k] + shift[k];
      if constexpr (adds) v += A(added.at[k]);
      const bool off = bits && v <= A(0);  // false for NaN
      on |= unsigned(!off) << k;
      out[k] = off ? A(0) : v;
    }
    store(y + i, packed<T>(out));
    if (bits) bits[i / K] = uint8_t(on);
  }
};

// Tensors that backward reads. `more` is null unless `adds`.
template <class T, bool adds = false> struct Incoming {
  // Gradients of elements [i, i + K): dy where the bit is set, else 0. If `adds`, dy is the rounded
  // sum of two gradients.
  template <int K> __device__ AlignedVector<T, K> gradients(int64_t i) const {
    AlignedVector<T, K> g = load<K>(dy + i), other;
    if constexpr (adds) other = load<K>(more + i);
    const unsigned on = bits.from(i);
    for (int k = 0; k < K; ++k) {
      if constexpr (adds) g.at[k] = T(Acc<T>(g.at[k]) + Acc<T>(other.at[k]));
      if (!(on >> k & 1)) g.at[k] = T();
    }
    return g;
  }
  const T *x, *dy, *more;
  Bits bits;
};

// dx = scale * g - slope * (x - mean) - shift
template <int K, class A> struct Backward {
  A mean[K], scale[K], slope[K], shift[K];

  // share: 1 / elements per channel.
  __device__ void of(int k, const Batch<A>& batch, const A* weight, const A* dw, const A* db,
                     A share, int c) {
    const A inverse = batch.inverse_deviation(c);
    mean[k] = batch.mean[c], scale[k] = weight[c] * inverse;
    slope[k] = dw ? scale[k] * inverse * dw[c] * share : A(0);
    shift[k] = db ? scale[k] * db[c] * share : A(0);
  }
  template <class T> __device__ void put(T* dx, int64_t i, const Incoming<T>& incoming) const {
    const AlignedVector<T, K> x = load<K>(incoming.x + i), g = incoming.template gradients<K>(i);
    A out[K];
    for (int k = 0; k < K; ++k)
      out[k] = scale[k] * A(g.at[k]) - slope[k] * (A(x.at[k]) - mean[k]) - shift[k];
    store(dx + i, packed<T>(out));
  }
};

template <class T> T* pointer(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

// ---- sums of each channel, per group of rows and then over the groups

// Splits the rows into groups; `tiles` blocks share the rows of a group. A group has every count-th
// run of `height` rows, so all blocks pass over x together. There are as many groups as run in one
// wave of blocks, each of `least` rows or more.
struct Groups {
  Groups(const Rows& rows, int height, int64_t least, int64_t wave, int64_t tiles)
      : rows(rows), height(height) {
    const int64_t most = std::max<int64_t>(rows.count / least, 1);
    count = rows.count ? int(std::clamp<int64_t>(wave / tiles, 1, most)) : 0;
    step = int64_t(height) * count;
    rounds = step ? rows.count / step : 0;
  }
  __device__ int64_t first(int group) const { return int64_t(group) * height; }
  // Returns the number of elements of a channel in a group.
  __device__ double elements(int group) const {
    const int64_t rest = rows.count - rounds * step - first(group);
    return double(rounds * height + std::clamp<int64_t>(rest, 0, height)) * rows.inner.size;
  }

  Rows rows;
  int height, count;
  int64_t step, rounds;  // rows between two runs of a group; number of runs that all groups have
};

// Sums for inner = 1. blockIdx.y is the group; threads with equal threadIdx.x split its rows.
// Blocks as in Tiles; shared memory: K sums per thread.
template <int K, class Job, class A = typename Job::A>
__global__ void sum_columns(Job job, Groups groups, Sums<A>* parts) {
  auto* const shared = dynamic_shared<Sums<A>>();  // (blockDim.y, width)
  const int width = blockDim.x * K, begin = blockIdx.x * width, thread = threadIdx.x * K;
  const int c = begin + thread, channels = groups.rows.channels;
  const int64_t first = groups.first(blockIdx.y) * channels;
  // The first threads fold one channel each.
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  const bool folds = mine < width && begin + mine < channels;
  const A pivot = folds ? job.pivot(first + begin + mine) : A(0);
  Sums<A> sums[K];
  if (c < channels) {
    const auto terms = job.template terms<K, K>(first + c, c);
#pragma unroll terms.kUnroll
    for (int64_t row = groups.first(blockIdx.y) + threadIdx.y; row < groups.rows.count;
         row += groups.step)
      terms.add(row * channels + c, sums);
  }
  for (int k = 0; k < K; ++k) shared[threadIdx.y * width + thread + k] = sums[k];
  __syncthreads();
  if (!folds) return;
  Sums<A> sum = shared[mine];
  for (unsigned y = 1; y < blockDim.y; ++y) sum = sum + shared[y * width + mine];
  parts[int64_t(begin + mine) * groups.count + blockIdx.y] =
      job.part(sum, groups.elements(blockIdx.y), pivot);
}

// Sums for inner > 1: one block of kThreads threads per channel and group of images.
template <int K, class Job, class A = typename Job::A>
__global__ void sum_planes(Job job, Groups groups, Divisor pieces, Sums<A>* parts) {
  const int c = blockIdx.x, g = blockIdx.y;
  const int64_t first = groups.rows.first(groups.first(g), c);
  const double elements = groups.elements(g);
  const auto terms = job.template terms<K, 1>(first, c);
  Sums<A> sums[K];
#pragma unroll terms.kUnroll
  for (int i = threadIdx.x; i < int(elements) / K; i += kThreads) {
    const int image = i / pieces, piece = i - image * pieces.size;
    terms.add(first + image * groups.step * groups.rows.length + piece * K, sums);
  }
  for (int k = 1; k < K; ++k) sums[0] = sums[0] + sums[k];
  const Sums<A> sum = block_fold(sums[0], Sums<A>(), Plus(), dynamic_shared<Sums<A>>());
  if (threadIdx.x == 0)
    parts[int64_t(c) * groups.count + g] = job.part(sum, elements, job.pivot(first));
}

// Adds up the groups: one warp per channel.
template <class Job, class A = typename Job::A>
__global__ void fold_groups(Job job, Groups groups, const Sums<A>* parts) {
  const Team team{kWarp};
  const int c = int(team.line());
  if (c >= groups.rows.channels) return;
  const Sums<A>* const own = parts + int64_t(c) * groups.count;
  const Sums<A> first = groups.count ? own[0] : Sums<A>();
  Sums<double> sums;
#pragma unroll 4
  for (int g = team.rank(); g < groups.count; g += kWarp)
    sums = sums + job.of_group(own[g], groups.elements(g), first);
  sums = warp_fold(sums, Plus());
  if (team.rank() == 0) job.store(sums, groups.rows, c, first);
}

// ---- elementwise pass

// Calls use(i) for this thread's pieces [i, i + K), one in each of its rows.
template <class Use>
__device__ void for_own_rows(const Groups& groups, int column, const Use& use) {
#pragma unroll 2
  for (int64_t row = groups.first(blockIdx.y) + threadIdx.y; row < groups.rows.count;
       row += groups.step)
    use(row * groups.rows.length + column);
}
template <int K> __device__ int own_column() {
  return int(blockIdx.x * blockDim.x + threadIdx.x) * K;
}

// Blocks of kThreads threads for a row of pieces: up to a warp wide, the rest in height.
struct Tiles {
  explicit Tiles(int64_t pieces) {
    const unsigned wide = std::bit_ceil(unsigned(std::min<int64_t>(pieces, kWarp)));
    threads = dim3(wide, kThreads / wide);
    count = unsigned(ceil_div(pieces, wide));
  }
  dim3 threads;
  unsigned count;
};

template <class Job, class Sum> void sum_groups(const Job& job, const Groups& groups, Sum sum) {
  using Part = Sums<typename Job::A>;
  const int channels = groups.rows.channels;
  const Tensor parts({int64_t(groups.count) * channels * int64_t(sizeof(Part))}, DType::u8,
                     Device::cuda);
  Part* const parts_ = reinterpret_cast<Part*>(parts.bytes());
  if (groups.count > 0) sum(parts_);
  launch(fold_groups<Job>, grid_of_lines(channels, {kWarp}), job, groups, parts_);
}
template <int K, class Job> void sum_by_columns(const Job& job, const Rows& rows) {
  const Tiles tiles(rows.channels / K);
  const int height = int(tiles.threads.y);
  const size_t shared = kThreads * K * sizeof(Sums<typename Job::A>);
  const int64_t wave = blocks_of_a_wave<sum_columns<K, Job>>(kThreads, shared);
  const Groups groups(rows, height, 8 * height, wave, tiles.count);
  sum_groups(job, groups, [&](auto* parts) {
    const Grid grid{dim3(tiles.count, groups.count), tiles.threads, shared};
    launch(sum_columns<K, Job>, grid, job, groups, parts);
  });
}
template <int K, class Job> void sum_by_planes(const Job& job, const Rows& rows) {
  const int64_t least = ceil_div(4096, rows.inner.size);
  const size_t shared = kWarp * sizeof(Sums<typename Job::A>);
  const int64_t wave = blocks_of_a_wave<sum_planes<K, Job>>(kThreads, shared);
  const Groups groups(rows, 1, least, wave, rows.channels);
  sum_groups(job, groups, [&](auto* parts) {
    const Grid grid{dim3(rows.channels, groups.count), kThreads, shared};
    launch(sum_planes<K, Job>, grid, job, groups, Divisor(rows.inner.size / K), parts);
  });
}
template <class T, class Job> void sum_channels(const Job& job, const Rows& rows) {
  if (rows.channels == 0) return;
  in_pieces<T>(rows.by_pixel ? rows.channels : rows.inner.size, [&]<int K>() {
    rows.by_pixel ? sum_by_columns<K>(job, rows) : sum_by_planes<K>(job, rows);
  });
}

// Launches an elementwise pass, with its groups as the last argument. Each thread has some four
// rows or more, to amortize loading the parameters of its channels.
template <auto kernel, int K, class... Args>
void launch_on_rows(const Rows& rows, const Args&... args) {
  const Tiles tiles(rows.length / K);
  const int height = int(tiles.threads.y);
  const Groups groups(rows, height, 4 * height, blocks_of_a_wave<kernel>(kThreads), tiles.count);
  launch(kernel, {dim3(tiles.count, groups.count), tiles.threads}, args..., groups);
}

}  // namespace bellows::batch_norm_cuda
