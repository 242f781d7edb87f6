// Parts that the batch_norm kernels on the GPU share if they read x twice. Sums are computed per
// group of rows, then over the groups.
#pragma once
#include "core/device/shared.cuh"
#include "core/device/wave.cuh"
#include "core/tensor/line.cuh"
#include "ops/norm/batch_norm.cuh"

namespace bellows::batch_norm_cuda {

// Splits the rows into groups, one for each block beside which `tiles` others share its rows. A
// group has every count-th run of `height` rows, so all blocks pass over x together. As many groups
// as one wave of blocks runs at once, each of `least` rows or more.
struct Groups {
  Groups(const Rows& rows, int height, int64_t least, int64_t wave, int64_t tiles)
      : rows(rows), height(height) {
    const int64_t most = std::max<int64_t>(rows.count / least, 1);
    count = rows.count ? int(std::clamp<int64_t>(wave / tiles, 1, most)) : 0;
    step = int64_t(height) * count;
    rounds = step ? rows.count / step : 0;
  }
  __device__ int64_t first(int group) const { return int64_t(group) * height; }
  // Elements of a channel in a group.
  __device__ double elements(int group) const {
    const int64_t rest = rows.count - rounds * step - first(group);
    return double(rounds * height + std::clamp<int64_t>(rest, 0, height)) * rows.inner.size;
  }

  Rows rows;
  int height, count;
  int64_t step, rounds;  // from a group's run of rows to its next; runs that all groups have
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
#pragma unroll 4
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
#pragma unroll 4
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
