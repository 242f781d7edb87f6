// The sum of the squares of all elements of a list of tensors, in one launch for up to kMost of
// them: each block takes its elements in an order that depends on the sizes only, the block that
// ends last adds up the blocks. In double, as on the CPU: the same bits on each run.
#pragma once
#include "core/foreach.h"
#include "core/launch.cuh"
#include "core/reduce.cuh"
#include "core/shared.cuh"

namespace bellows {

namespace detail {

template <class T> struct Addresses {
  static constexpr int kMost = 1000;
  int count = 0;
  int64_t starts[kMost + 1] = {};  // of each tensor in the flattened list
  const T* at[kMost];
};
inline constexpr int kNormBlocks = 512;
static __device__ unsigned norm_ticket;

// `before`: partial sums of earlier launches, in front of this one's.
template <class T, class Finish>
__global__ void sum_squares(const __grid_constant__ Addresses<T> list, double* partial, int before,
                            bool last, Finish finish) {
  auto* const scratch = dynamic_shared<double>();
  double squares = 0;
  int tensor = 0;
  for (int64_t i = thread_index(); i < list.starts[list.count]; i += thread_count()) {
    while (i >= list.starts[tensor + 1]) ++tensor;
    const double value = Acc<T>(list.at[tensor][i - list.starts[tensor]]);
    squares += value * value;
  }
  squares = block_sum(squares, scratch);
  if (threadIdx.x == 0) partial[before + blockIdx.x] = squares;
  if (!last || !is_last_block(&norm_ticket)) return;
  double sum = 0;
  for (int i = threadIdx.x; i < before + int(gridDim.x); i += blockDim.x) sum += partial[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) finish(sum);
}

}  // namespace detail

// Calls finish(sum) in one thread. Dense tensors of one dtype, at least one.
template <class Finish> void sum_of_squares(TensorSpan list, const Finish& finish) {
  using namespace detail;
  visit_stored(list.front().dtype(), [&]<class T>(T) {
    constexpr int kMost = Addresses<T>::kMost;
    const int launches = int((list.size() + kMost - 1) / kMost);
    const Tensor partial({launches * kNormBlocks}, DType::f64, Device::cuda);
    for (int k = 0; k < launches; ++k) {
      Addresses<T> part;
      for (const Tensor& t : list.subspan(k * kMost, std::min<size_t>(kMost, list.size() - k * kMost))) {
        CHECK(t.is_dense(), "norm_of: strides ", t.strides(), " have gaps");
        part.at[part.count] = t.ptr<T>();
        part.starts[part.count + 1] = part.starts[part.count] + t.numel();
        ++part.count;
      }
      // All blocks but the last launch's are kNormBlocks, so that `before` needs no reading back.
      const bool last = k + 1 == launches;
      Grid grid = grid_of(part.starts[part.count]);
      grid.blocks.x = last ? std::min<unsigned>(grid.blocks.x, kNormBlocks) : kNormBlocks;
      grid.shared_bytes = kThreads / kWarp * sizeof(double);
      launch(sum_squares<T, Finish>, grid, part, partial.ptr<double>(), k * kNormBlocks, last,
             finish);
    }
  });
}

}  // namespace bellows
