// Cuts batches of f32 products into tiles, which a library's sgemm computes on one thread each.
#pragma once
#include "core/device/parallel.h"
#include "ops/matmul/matmul.h"

namespace bellows {

// Calls sgemm(rows, columns, a, b, y) for each tile of y (B, M, N), on the threads of the run. A
// library that sgemm calls opens no threads of its own, if they are OpenMP's. Tiles depend on the
// sizes only, so results do not depend on the thread count. A product of up to 2^20 multiply-adds
// (about 20 us on one core) is one tile and wakes no other thread.
template <class Fn>
void for_each_tile(const Tensor& y, const Tensor& a, const Tensor& b, const Fn& sgemm) {
  const int64_t M = y.dim(1), N = y.dim(2);
  const int64_t parts = std::clamp<int64_t>(M * N * a.dim(2) >> 20, 1, 64);
  // Tiles span up to 1024 of the shorter side, so a and b are read less often.
  const int64_t bands = ceil_div(std::min(M, N), 1024);
  const int64_t band = ceil_div(std::min(M, N), bands);
  const int64_t length = round_up(ceil_div(std::max(M, N), ceil_div(parts, bands)), 16);
  const int64_t most_rows = M > N ? length : band, most_columns = M > N ? band : length;
  const int64_t tall = ceil_div(M, most_rows), wide = ceil_div(N, most_columns);
  parallel_for(y.dim(0) * tall * wide, 1, [&](int64_t begin, int64_t end) {
    const SingleThreadScope alone;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / (tall * wide);
      const int64_t m = at / wide % tall * most_rows, n = at % wide * most_columns;
      sgemm(std::min(most_rows, M - m), std::min(most_columns, N - n),
            a.ptr<float>() + i * a.strides()[0] + m * a.strides()[1],
            b.ptr<float>() + i * b.strides()[0] + n * b.strides()[2],
            y.ptr<float>() + i * y.strides()[0] + m * y.strides()[1] + n);
    }
  });
}

}  // namespace bellows
