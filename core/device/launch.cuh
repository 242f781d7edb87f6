// launch(): starts a kernel; used for all of them. Arguments convert as in a call of the kernel,
// and a refused launch throws immediately. <<<>>> does neither, and only nvcc can compile it.
#pragma once
#include <cuda_runtime.h>
#include <algorithm>
#include <type_traits>
#include "core/base/dtype.h"
#include "core/base/round.h"
#include "core/base/trace.h"
#include "core/device/cuda.h"

namespace bellows {

struct Grid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;
  cudaStream_t stream = cuda::stream();
};

namespace detail {
// Counts a launch (cuda.launches), records it for messages, and returns its configuration.
inline cudaLaunchConfig_t begin_launch(const Grid& grid) {
  trace::count<"cuda.launches">();
  cuda::note_launch();
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = grid.stream;
  return config;
}
}  // namespace detail

template <class... Params>
void launch(void (*kernel)(Params...), const Grid& grid, std::type_identity_t<Params>... args) {
  const cudaLaunchConfig_t config = detail::begin_launch(grid);
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}

// Launches a kernel compiled at run time, whose parameters must have exactly these types.
template <class... Args> void launch(cudaKernel_t kernel, const Grid& grid, const Args&... args) {
  const cudaLaunchConfig_t config = detail::begin_launch(grid);
  void* addresses[] = {const_cast<Args*>(&args)...};
  CUDA_CHECK(cudaLaunchKernelExC(&config, kernel, addresses));
}

// ---- grids over n elements, for kernels with a grid-stride loop:
//   for (int64_t i = thread_index(); i < n; i += thread_count()) ...

inline constexpr int kThreads = 256;

// Returns the number of blocks of kThreads threads that the GPU runs at once.
inline int64_t resident_blocks() {
  return int64_t(cuda::limits().multiprocessors) * cuda::limits().threads / kThreads;
}

// Returns a grid of at most twice the blocks that the GPU runs at once.
inline Grid grid_of(int64_t n, int threads = kThreads) {
  const int64_t blocks = std::clamp<int64_t>(ceil_div(n, threads), 1, 2 * resident_blocks());
  return {dim3(unsigned(blocks)), dim3(unsigned(threads))};
}
__device__ inline int64_t thread_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t thread_count() { return int64_t(gridDim.x) * blockDim.x; }

// Returns the entry of a table that a block works on: the last of n ascending `starts` that is not
// above `at`. starts[0] must not be above it.
template <class T> __device__ int entry_at(T at, const T* starts, int n) {
  int low = 0;
  for (int high = n; high - low > 1;) {
    const int middle = (low + high) / 2;
    (starts[middle] <= at ? low : high) = middle;
  }
  return low;
}

// ---- grids of whole waves. A wave is the number of blocks that the GPU runs at once. A few blocks
// beyond whole waves would run alone at the end, while the rest of the GPU is idle.

// Returns the number of blocks of `kernel` that the GPU runs at once. All calls for one kernel must
// pass the same `threads` and `shared_bytes` per block.
template <auto kernel> int64_t blocks_of_a_wave(int threads, size_t shared_bytes = 0) {
  static const int on_one = [&] {
    int blocks = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, reinterpret_cast<const void*>(kernel), threads, shared_bytes));
    return blocks;
  }();
  return int64_t(on_one) * cuda::limits().multiprocessors;
}

}  // namespace bellows
