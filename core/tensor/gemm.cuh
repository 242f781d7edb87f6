// Tiled product on the GPU, shared by matrices and convolutions:
//
//   y(z, m, n) = sum over k of a(z, m, k) b(z, n, k)
//
// Operands compute where their elements are, so b may be the patches of an image that are never
// written out (implicit GEMM). An operand has these members, where a lane is one m or n:
//
//   Value                     type of the computation
//   along                     true: neighbors along k, not across lanes, are adjacent in memory
//   enter(z)                  selects product z of the batch
//   lane(i), depth(k)         position of a lane and of a k; both may be out of range
//   value(lane, depth)        the element at that position, 0 if out of range
//
// The output has enter(z) and store(m, n, value).
#pragma once
#include "core/base/round.h"
#include "core/device/launch.cuh"
#include "core/device/shared.cuh"
#include "core/tensor/kernel.h"

namespace bellows::gemm {

// Tile sizes. A block of kThreads computes M x N elements of y, from `depth` values of k at a time;
// each thread keeps m x n sums in registers. If M/m * N/n is less than kThreads, the other threads
// are further slices, each with its share of the values of k. `pad` avoids bank conflicts between
// threads that write a column of a tile. Shared memory: depth * (M + N + 2 pad) values.
struct Wide {
  static constexpr int M = 64, N = 64, depth = 16, m = 4, n = 4, pad = 4;
};
struct Narrow {
  static constexpr int M = 16, N = 16, depth = 128, m = 2, n = 2, pad = 1;
};

struct Extent {
  int64_t batch, M, N, depth;
};

// ---- the device

// An operand's part of a tile. It is loaded into registers while the previous part is multiplied,
// then stored to shared memory as (depth, lanes).
template <class Operand, class Tile, int lanes> class Part {
 public:
  using Value = typename Operand::Value;
  static constexpr int kPitch = lanes + Tile::pad;

  __device__ Part(const Operand& operand, int first)
      : operand_(operand), first_(first), lane_(operand.lane(first + threadIdx.x % lanes)) {}

  __device__ void load(int k) {
    if (operand_.along) {
      const auto depth = operand_.depth(k + threadIdx.x % Tile::depth);
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        value_[i] = operand_.value(operand_.lane(first_ + lane_of(i)), depth);
    } else {
#pragma unroll
      for (int i = 0; i < kEach; ++i) value_[i] = operand_.value(lane_, operand_.depth(k + row(i)));
    }
  }
  __device__ void store(Value* tile) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      tile[operand_.along ? threadIdx.x % Tile::depth * kPitch + lane_of(i)
                          : row(i) * kPitch + threadIdx.x % lanes] = value_[i];
  }

 private:
  static constexpr int kEach = lanes * Tile::depth / kThreads;
  __device__ static int lane_of(int i) {
    return threadIdx.x / Tile::depth + i * (kThreads / Tile::depth);
  }
  __device__ static int row(int i) { return threadIdx.x / lanes + i * (kThreads / lanes); }

  const Operand& operand_;
  int first_;
  decltype(std::declval<Operand>().lane(0)) lane_;
  Value value_[kEach];
};

// Sums of one thread: rows row + i and columns column + j * across of the tile.
template <class Tile, class Value> struct Sums {
  static constexpr int across = Tile::N / Tile::n, threads = Tile::M / Tile::m * across;
  static constexpr int slices = kThreads / threads;

  __device__ void add(const Value* a, const Value* b, int depth) {
#pragma unroll 4
    for (int k = slice; k < depth; k += slices) {
      Value left[Tile::m], right[Tile::n];
#pragma unroll
      for (int i = 0; i < Tile::m; ++i) left[i] = a[k * (Tile::M + Tile::pad) + row + i];
#pragma unroll
      for (int j = 0; j < Tile::n; ++j)
        right[j] = b[k * (Tile::N + Tile::pad) + column + j * across];
#pragma unroll
      for (int i = 0; i < Tile::m; ++i)
#pragma unroll
        for (int j = 0; j < Tile::n; ++j) sum[i][j] += left[i] * right[j];
    }
  }

  // Calls fn(row, column, sum) for each element of the tile, after adding all slices in order.
  template <class Fn> __device__ void for_each(Value* scratch, const Fn& fn) const {
#pragma unroll
    for (int i = 0; i < Tile::m; ++i)
#pragma unroll
      for (int j = 0; j < Tile::n; ++j)
        if constexpr (slices == 1)
          fn(row + i, column + j * across, sum[i][j]);
        else
          scratch[(slice * Tile::M + row + i) * Tile::N + column + j * across] = sum[i][j];
    if constexpr (slices == 1) return;
    __syncthreads();
    for (int i = threadIdx.x; i < Tile::M * Tile::N; i += kThreads) {
      Value total = scratch[i];
      for (int s = 1; s < slices; ++s) total += scratch[s * Tile::M * Tile::N + i];
      fn(i / Tile::N, i % Tile::N, total);
    }
  }

  const int slice = threadIdx.x / threads;
  const int row = threadIdx.x % threads / across * Tile::m, column = threadIdx.x % across;
  Value sum[Tile::m][Tile::n] = {};
};

// One block of kThreads per tile of y; the tiles of a product z are consecutive, row by row.
template <class Tile, class A, class B, class Out>
__global__ void multiply(A a, B b, Out out, int M, int N, int depth) {
  using Value = typename A::Value;
  const int tile = int(blockIdx.x);
  const int wide = ceil_div(N, Tile::N), tall = ceil_div(M, Tile::M);
  const int m = tile / wide % tall * Tile::M, n = tile % wide * Tile::N;
  const int z = tile / wide / tall;
  a.enter(z), b.enter(z), out.enter(z);

  Value* const a_tile = dynamic_shared<Value>();
  Value* const b_tile = a_tile + Tile::depth * (Tile::M + Tile::pad);
  Part<A, Tile, Tile::M> a_part(a, m);
  Part<B, Tile, Tile::N> b_part(b, n);
  Sums<Tile, Value> sums;
  a_part.load(0), b_part.load(0);
  for (int k = 0; k < depth; k += Tile::depth) {
    a_part.store(a_tile), b_part.store(b_tile);
    __syncthreads();
    if (k + Tile::depth < depth) a_part.load(k + Tile::depth), b_part.load(k + Tile::depth);
    sums.add(a_tile, b_tile, std::min(int(Tile::depth), depth - k));
    __syncthreads();
  }
  sums.for_each(a_tile, [&](int i, int j, Value value) {
    if (m + i < M && n + j < N) out.store(m + i, n + j, value);
  });
}

// ---- the host

template <class Tile> int64_t tiles(const Extent& y) {
  return ceil_div(y.M, Tile::M) * ceil_div(y.N, Tile::N);
}

template <class Tile, class A, class B, class Out>
void start(const A& a, const B& b, const Out& out, const Extent& y) {
  constexpr size_t bytes =
      Tile::depth * (Tile::M + Tile::N + 2 * Tile::pad) * sizeof(typename A::Value);
  launch(multiply<Tile, A, B, Out>, Grid{unsigned(y.batch * tiles<Tile>(y)), kThreads, bytes}, a, b,
         out, int(y.M), int(y.N), int(y.depth));
}

// Uses narrow tiles if wide ones would be mostly empty, or too few for all multiprocessors.
template <class A, class B, class Out>
void run(const A& a, const B& b, const Out& out, const Extent& y) {
  constexpr int64_t kLimit = (int64_t{1} << 31) - 256;
  const int64_t narrow = y.batch * tiles<Narrow>(y);
  CHECK(std::max({y.M, y.N, y.depth, narrow}) < kLimit, running_kernel(), ": a product of ", y.M,
        " x ", y.depth, " x ", y.N, " (", y.batch, " of them) is beyond 32-bit indices");
  if (narrow == 0) return;
  if (std::min(y.M, y.N) <= Narrow::M || y.batch * tiles<Wide>(y) < cuda::limits().multiprocessors)
    start<Narrow>(a, b, out, y);
  else
    start<Wide>(a, b, out, y);
}

// A matrix (lanes, depths) with any strides. `batch`: elements from one product to the next.
template <class T> struct Matrix {
  using Value = Acc<T>;
  const T* data;
  int64_t batch, lane_step, depth_step;
  int lanes, depths;
  bool along = depth_step == 1;

  __device__ void enter(int z) { data += z * batch; }
  __device__ int64_t lane(int i) const { return i < lanes ? i * lane_step : -1; }
  __device__ int64_t depth(int k) const { return k < depths ? k * depth_step : -1; }
  __device__ Value value(int64_t lane, int64_t depth) const {
    return lane < 0 || depth < 0 ? Value(0) : Value(data[lane + depth]);
  }
};

}  // namespace bellows::gemm
