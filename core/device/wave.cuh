// Grids that fill whole waves: as many blocks as the GPU runs at once, so that no few of them are
// left to run alone at the end.
#pragma once
#include "core/device/launch.cuh"

namespace bellows {

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
