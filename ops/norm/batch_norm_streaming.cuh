// Shared by the batch_norm kernels on the GPU that read x twice. Sums are computed per group of
// rows, then over the groups.
#pragma once
#include "core/device/shared.cuh"
#include "core/tensor/line.cuh"
#include "ops/norm/batch_norm.cuh"

namespace bellows::batch_norm_cuda {

// Splits the rows into as many groups as fill the GPU, each of `least` rows or more.
struct Groups {
  Groups(const Rows& rows, int64_t least, int64_t blocks) : rows(rows) {
    const int64_t most = std::max<int64_t>(rows.count / least, 1);
    const int64_t wanted = std::clamp<int64_t>(resident_blocks() / blocks, 1, most);
    each = std::max<int64_t>(ceil_div(rows.count, wanted), 1);
    count = int(ceil_div(rows.count, each));
  }
  __device__ int64_t begin(int group) const { return group * each; }
  __device__ int64_t end(int group) const { return std::min(begin(group) + each, rows.count); }

  Rows rows;
  int64_t each;
  int count;
};

// Sums for inner = 1. blockIdx.y is the group; threads with equal threadIdx.x split its rows.
// Blocks as in Tiles; shared memory: K sums per thread.
template <int K, class Job, class A = typename Job::A>
__global__ void sum_columns(Job job, Groups groups, Sums<A>* parts) {
  await_predecessor();
  auto* const shared = dynamic_shared<Sums<A>>();  // (blockDim.y, width)
  const int width = blockDim.x * K, begin = blockIdx.x * width, thread = threadIdx.x * K;
  const int c = begin + thread, channels = groups.rows.channels;
  const int64_t first = groups.begin(blockIdx.y);
  Sums<A> sums[K];
  if (c < channels) {
    const auto terms = job.template terms<K, K>(first * channels + c, c);
    read_ahead<terms.kAhead>(
        first + threadIdx.y, groups.end(blockIdx.y), int64_t(blockDim.y),
        [&](int64_t row) { return terms.read(row * channels + c); },
        [&](int64_t, const auto& in) { terms.add(in, sums); });
  }
  for (int k = 0; k < K; ++k) shared[threadIdx.y * width + thread + k] = sums[k];
  __syncthreads();
  const int mine = threadIdx.y * blockDim.x + threadIdx.x;
  if (mine >= width || begin + mine >= channels) return;
  Sums<A> sum = shared[mine];
  for (unsigned y = 1; y < blockDim.y; ++y) sum = sum + shared[y * width + mine];
  parts[int64_t(begin + mine) * groups.count + blockIdx.y] = sum;
}

// Sums for inner > 1: one block of kThreads threads per channel and group of images.
template <int K, class Job, class A = typename Job::A>
__global__ void sum_planes(Job job, Groups groups, Divisor pieces, Sums<A>* parts) {
  await_predecessor();
  const int c = blockIdx.x, g = blockIdx.y;
  const int64_t first = groups.rows.first(groups.begin(g), c);
  const int n = int(groups.end(g) - groups.begin(g)) * pieces.size;
  const auto terms = job.template terms<K, 1>(first, c);
  Sums<A> sums[K];
  const auto read = [&](int i) {
    const int image = i / pieces, piece = i - image * pieces.size;
    return terms.read(first + int64_t(image) * groups.rows.length + piece * K);
  };
  read_ahead<terms.kAhead>(int(threadIdx.x), n, kThreads, read,
                           [&](int, const auto& in) { terms.add(in, sums); });
  for (int k = 1; k < K; ++k) sums[0] = sums[0] + sums[k];
  const Sums<A> sum = block_fold(sums[0], Sums<A>(), Plus(), dynamic_shared<Sums<A>>());
  if (threadIdx.x == 0) parts[int64_t(c) * groups.count + g] = sum;
}

// Adds up the groups: one warp per channel.
template <class Job, class A = typename Job::A>
__global__ void fold_groups(Job job, Groups groups, const Sums<A>* parts) {
  await_predecessor();
  const Team team{kWarp};
  const int c = int(team.line());
  if (c >= groups.rows.channels) return;
  Sums<double> sums;
#pragma unroll 4
  for (int g = team.rank(); g < groups.count; g += kWarp)
    sums = sums + job.of_group(parts[int64_t(c) * groups.count + g], groups, g, c);
  sums = warp_fold(sums, Plus());
  if (team.rank() == 0) job.store(sums, groups, c);
}

// ---- elementwise pass

// Calls use(i, read(i)) for this thread's pieces [i, i + K), one in each of its rows.
template <class Read, class Use>
__device__ void down_the_rows(const Rows& rows, int column, const Read& read, const Use& use) {
  const auto at = [&](int64_t row) { return row * rows.length + column; };
  read_ahead<2>(
      int64_t(blockIdx.y * blockDim.y + threadIdx.y), rows.count, int64_t(gridDim.y * blockDim.y),
      [&](int64_t row) { return read(at(row)); },
      [&](int64_t row, const auto& in) { use(at(row), in); });
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
  const Groups groups(rows, 8 * tiles.threads.y, tiles.count);
  sum_groups(job, groups, [&](auto* parts) {
    const Grid grid{dim3(tiles.count, groups.count), tiles.threads, kThreads * K * sizeof(*parts)};
    launch(sum_columns<K, Job>, grid, job, groups, parts);
  });
}
template <int K, class Job> void sum_by_planes(const Job& job, const Rows& rows) {
  const int least = (4096 + rows.inner.size - 1) / rows.inner.size;
  const Groups groups(rows, least, rows.channels);
  sum_groups(job, groups, [&](auto* parts) {
    const Grid grid{dim3(rows.channels, groups.count), kThreads, kWarp * sizeof(*parts)};
    launch(sum_planes<K, Job>, grid, job, groups, Divisor(rows.inner.size / K), parts);
  });
}
template <class T, class Job> void sum_channels(const Job& job, const Rows& rows) {
  if (rows.channels == 0) return;
  in_pieces<T>(rows.by_pixel ? rows.channels : rows.inner.size, [&]<int K>() {
    rows.by_pixel ? sum_by_columns<K>(job, rows) : sum_by_planes<K>(job, rows);
  });
}

// Each thread has some four rows or more, to amortize loading the parameters of its channels.
template <int K> Grid grid_of_rows(const Rows& rows) {
  const Tiles tiles(rows.length / K);
  const Groups groups(rows, 4 * tiles.threads.y, tiles.count);
  return {dim3(tiles.count, groups.count), tiles.threads};
}

}  // namespace bellows::batch_norm_cuda
