// Grids of whole waves. A wave is the number of blocks that the GPU runs at once. A few blocks
// beyond whole waves would run alone at the end, while the rest of the GPU is idle.
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
