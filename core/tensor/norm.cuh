// Sum of the squares of all elements of a list of tensors. One block per chunk; the block that ends
// last adds the blocks' sums. Blocks add in double, as the CPU does, in an order that depends only
// on the sizes, so every run has the same bits.
#pragma once
#include "core/device/shared.cuh"
#include "core/tensor/foreach.cuh"

namespace bellows {

namespace detail {

static __device__ unsigned norm_ticket;

// parts: n sums, one per block, those of earlier launches first. Shared memory: one double per
// warp.
template <class Finish>
__global__ void sum_squares(const __grid_constant__ Chunks chunks, double* parts, int n, bool last,
                            Finish finish) {
  double squares = 0;
  chunks.visit(blockIdx.x, [&]<class T>(const T* t, int64_t length) {
    const auto take = [&](int64_t, double value) { squares += value * value; };
    for_line<T>(length, Team{int(blockDim.x)}, take, t);
  });
  squares = block_sum(squares, dynamic_shared<double>());
  if (threadIdx.x == 0) parts[n - gridDim.x + blockIdx.x] = squares;
  if (!last || !is_last_block(&norm_ticket)) return;
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) finish(sum);
}

template <class Finish> __global__ void finish_nothing(Finish finish) { finish(0.); }

}  // namespace detail

// Calls finish(sum) on one thread of the device. Returns the number of launches: one per
// Chunks::kMost tensors.
template <class Finish> int64_t sum_of_squares(TensorSpan list, const Finish& finish) {
  int all = 0, done = 0;
  int64_t launches = 0;
  for (const Tensor& t : list) all += Chunks::chunks_of(t);
  if (!all) return launch(detail::finish_nothing<Finish>, {1, 1}, finish), 1;
  const Tensor parts({all}, DType::f64, Device::cuda);
  for_chunks("norm_of", list, [&](const Chunks& chunks) {
    done += chunks.count();
    ++launches;
    launch(detail::sum_squares<Finish>,
           {unsigned(chunks.count()), kThreads, kThreads / kWarp * sizeof(double)}, chunks,
           parts.ptr<double>(), done, done == all, finish);
  });
  return launches;
}

}  // namespace bellows
