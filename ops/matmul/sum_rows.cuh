// Sums over the rows of a matrix, in an order that depends only on its size.
#pragma once
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "core/tensor/tensor.h"

namespace bellows {

// Destination of the sums: `first` for the first `split` columns, `rest` for the others.
template <class T> struct RowSums {
  T* first;
  int64_t split;
  T* rest = nullptr;
};

namespace detail {

constexpr int kRowsAtOnce = 8;

// Each block of (32, 8) threads sums 32 columns of `rows_each` rows. blockIdx.y is the group of
// rows and the row of `to`. Shared memory: one sum per thread.
template <class To, class From>
__global__ void sum_rows(const From* from, int64_t rows, int64_t columns, int64_t rows_each,
                         RowSums<To> to) {
  await_predecessor();
  using Sum = Acc<To>;
  Sum* const part = dynamic_shared<Sum>();  // (kRowsAtOnce, kWarp)
  const int64_t c = int64_t(blockIdx.x) * kWarp + threadIdx.x, first = blockIdx.y * rows_each;
  const int64_t last = std::min(first + rows_each, rows);
  Sum sum = 0;
#pragma unroll 4
  for (int64_t r = first + threadIdx.y; c < columns && r < last; r += kRowsAtOnce)
    sum += Sum(from[r * columns + c]);
  part[threadIdx.y * kWarp + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  for (int r = 1; r < kRowsAtOnce; ++r) sum += part[r * kWarp + threadIdx.x];
  (c < to.split ? to.first[blockIdx.y * columns + c] : to.rest[c - to.split]) = To(sum);
}

}  // namespace detail

// Sums `from` (rows, columns), row-major. Many rows are split into at most 1024 groups, whose sums
// a second launch adds up.
template <class To, class From>
void sum_rows_into(const RowSums<To>& to, const From* from, int64_t rows, int64_t columns) {
  constexpr int64_t kRows = 512, kGroups = 1024;
  if (columns == 0) return;
  const unsigned wide = unsigned(ceil_div(columns, kWarp));
  const dim3 threads(kWarp, detail::kRowsAtOnce);
  const size_t bytes = detail::kRowsAtOnce * kWarp * sizeof(Acc<To>);
  if (rows <= 2 * kRows) {
    launch(detail::sum_rows<To, From>, Grid{wide, threads, bytes}, from, rows, columns, rows, to);
    return;
  }
  const int64_t each = std::max(kRows, ceil_div(rows, kGroups));
  const int64_t groups = ceil_div(rows, each);
  const Tensor parts({groups, columns}, dtype_of<Acc<To>>, Device::cuda);
  Acc<To>* const sums = parts.ptr<Acc<To>>();
  launch(detail::sum_rows<Acc<To>, From>, Grid{dim3(wide, unsigned(groups)), threads, bytes}, from,
         rows, columns, each, RowSums<Acc<To>>{sums, columns});
  sum_rows_into(to, sums, groups, columns);
}

}  // namespace bellows
