// Attention on the GPU. A block has kRows warps, each of which computes one row: a query, or in
// backward a query or a key. The block goes through the other side, keys or queries, in tiles of a
// warp's size in shared memory, one row of the tile per lane. Each element of qkv is read once per
// block. Scores stay in shared memory, and no two blocks write to one address.
#include "core/device/launch.cuh"
#include "core/device/reduce.cuh"
#include "core/device/shared.cuh"
#include "ops/attention/attention.h"

namespace bellows {

namespace {

using Sizes = kernels::AttentionSizes;
constexpr int kRows = kThreads / kWarp;
constexpr int kWidest = 128, kEach = kWidest / kWarp;  // values of a row, and of one lane

// Rows of one head in a tensor, `step` elements apart.
template <class T> struct Rows {
  T* at;
  int64_t step;
};
template <class T> __device__ Rows<T> part_of(T* like_qkv, const Sizes& z, int64_t pair, int part) {
  return {like_qkv + z.first(pair, 3 * z.D) + part * z.D, 3 * z.D};
}

// Position of a thread, and the block's shared memory: two tiles of the other side and, for each
// warp, two rows and the weights of its pairs of rows. Rows are padded against bank conflicts.
template <class A> struct Block {
  __device__ explicit Block(const Sizes& z)
      : size(int(z.size)),
        lane(threadIdx.x % kWarp),
        pair(blockIdx.x / ceil_div(z.T, kRows)),
        first(blockIdx.x % ceil_div(z.T, kRows) * kRows),
        row(first + threadIdx.x / kWarp) {}
  static size_t bytes(int64_t size) {
    return 2 * ((kWarp + kRows) * (size + 1) + kRows * kWarp) * sizeof(A);
  }
  // Copies `count` rows from row `begin` to shared memory. Rows from `end` on become 0.
  template <class T>
  __device__ void load(A* to, Rows<const T> from, int count, int64_t begin, int64_t end) const {
    for (int i = threadIdx.x; i < count * size; i += kThreads) {
      const int64_t row = begin + i / size, c = i % size;
      to[i / size * (size + 1) + c] = row < end ? A(from.at[row * from.step + c]) : A(0);
    }
  }
  // Writes this warp's row of a tensor.
  template <class T> __device__ void store(Rows<T> to, const A (&values)[kEach], A factor) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int c = lane + i * kWarp;
      if (c < size) to.at[row * to.step + c] = T(values[i] * factor);
    }
  }
  // Returns the product of this warp's row with this lane's row of the tile.
  __device__ A product(const A* rows, const A* tile) const {
    A sum = 0;
    for (int c = 0; c < size; ++c)
      sum += rows[threadIdx.x / kWarp * (size + 1) + c] * tile[lane * (size + 1) + c];
    return sum;
  }
  // sums = sums * shrink + the rows of the tile, weighted.
  __device__ void add(const A* of_rows, const A* tile, A shrink, A (&sums)[kEach]) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      A sum = sums[i] * shrink;
      const int c = lane + i * kWarp;
      for (int j = 0; j < kWarp && c < size; ++j) sum += of_rows[j] * tile[j * (size + 1) + c];
      sums[i] = sum;
    }
  }

  const int size, lane;
  const int64_t pair, first, row;
  A* const x = dynamic_shared<A>();
  A *const y = x + kWarp * (size + 1), *const a = y + kWarp * (size + 1);
  A *const b = a + kRows * (size + 1), *const all_weights = b + kRows * (size + 1);
  A* const weights = all_weights + threadIdx.x / kWarp * 2 * kWarp;
};

template <class T> __global__ void forward(const T* qkv, T* y, Acc<T>* lse, Sizes z) {
  using A = Acc<T>;
  const Block<A> on(z);
  const int64_t keys = z.keys(on.pair), end = z.seen(std::min(on.first + kRows, z.T) - 1, keys);
  const int64_t seen = on.row < z.T ? z.seen(on.row, keys) : 0;
  const A scale = A(z.scale);
  A sums[kEach] = {}, most = std::numeric_limits<A>::lowest(), total = 0;
  on.load(on.a, part_of(qkv, z, on.pair, 0), kRows, on.first, z.T);
  for (int64_t first = 0; first < end; first += kWarp) {
    __syncthreads();  // the previous tile has been read
    on.load(on.x, part_of(qkv, z, on.pair, 1), kWarp, first, keys);
    on.load(on.y, part_of(qkv, z, on.pair, 2), kWarp, first, keys);
    __syncthreads();
    const bool visible = first + on.lane < seen;
    const A score = visible ? on.product(on.a, on.x) * scale : most, before = most;
    most = warp_fold(std::max(most, score), [](A a, A b) { return a > b ? a : b; });
    const A p = visible ? std::exp(score - most) : A(0), shrink = std::exp(before - most);
    total = total * shrink + warp_sum(p);
    on.weights[on.lane] = p;
    __syncthreads();
    on.add(on.weights, on.y, shrink, sums);
  }
  if (on.row >= z.T) return;
  on.store(Rows<T>{y + z.first(on.pair, z.D), z.D}, sums, seen ? 1 / total : A(0));
  if (on.lane == 0) lse[on.pair * z.T + on.row] = most + std::log(total);
}

// Computes dq if the rows are queries, dk and dv if they are keys. For queries it first writes
// delta, the sum of dy * y, which the launch for keys reads.
template <class T, bool of_keys>
__global__ void backward(const T* qkv, const T* y, const T* dy_, const Acc<T>* lse, Acc<T>* delta,
                         T* dqkv, Sizes z) {
  using A = Acc<T>;
  const Block<A> on(z);
  const int64_t keys = z.keys(on.pair), start = z.first(on.pair, z.D);
  const A scale = A(z.scale);
  const auto qs = part_of(qkv, z, on.pair, 0), ks = part_of(qkv, z, on.pair, 1);
  const Rows<const T> vs = part_of(qkv, z, on.pair, 2), dys{dy_ + start, z.D};
  lse += on.pair * z.T, delta += on.pair * z.T;
  on.load(on.a, of_keys ? ks : qs, kRows, on.first, z.T);
  on.load(on.b, of_keys ? vs : dys, kRows, on.first, z.T);
  if (!of_keys) {
    A sum = 0;
    for (int c = on.lane; c < on.size && on.row < z.T; c += kWarp)
      sum += A(y[start + on.row * z.D + c]) * A(dys.at[on.row * z.D + c]);
    sum = warp_sum(sum);
    if (on.lane == 0 && on.row < z.T) delta[on.row] = sum;
  }
  const int64_t begin = of_keys && z.causal ? on.first : 0;
  const int64_t end = !of_keys          ? z.seen(std::min(on.first + kRows, z.T) - 1, keys)
                      : on.first < keys ? z.T
                                        : begin;
  A da[kEach] = {}, db[kEach] = {};
  for (int64_t first = begin; first < end; first += kWarp) {
    __syncthreads();  // the previous tile has been read, and delta is written
    on.load(on.x, of_keys ? qs : ks, kWarp, first, of_keys ? z.T : keys);
    on.load(on.y, of_keys ? dys : vs, kWarp, first, of_keys ? z.T : keys);
    __syncthreads();
    const int64_t other = first + on.lane;
    const int64_t query = of_keys ? other : on.row, key = of_keys ? on.row : other;
    A p = 0, ds = 0;
    if (query < z.T && key < z.seen(query, keys)) {
      p = std::exp(on.product(on.a, on.x) * scale - lse[query]);
      ds = p * (on.product(on.b, on.y) - delta[query]) * scale;
    }
    on.weights[on.lane] = ds, on.weights[kWarp + on.lane] = p;
    __syncthreads();
    on.add(on.weights, on.x, A(1), da);
    if (of_keys) on.add(on.weights + kWarp, on.y, A(1), db);
  }
  if (on.row >= z.T) return;
  on.store(part_of(dqkv, z, on.pair, of_keys ? 1 : 0), da, A(1));
  if (of_keys) on.store(part_of(dqkv, z, on.pair, 2), db, A(1));
}

template <class A> Grid grid_of_rows(const Sizes& z) {
  const size_t bytes = Block<A>::bytes(z.size);
  CHECK(z.size <= kWidest && bytes <= 48 << 10, running_kernel(), ": heads of ", z.size,
        " values do not fit; on a GPU they have at most ", kWidest, ", in f64 64");
  return {unsigned(z.pairs * ceil_div(z.T, kRows)), kThreads, bytes};
}

kernels::Attended forward_cuda(const Tensor& qkv, const Tensor& lengths,
                               const AttentionOptions& options) {
  const Sizes z(qkv, lengths, options);
  const Tensor y = empty({qkv.dim(0), z.T, z.D}, qkv);
  return visit_stored(qkv.dtype(), [&]<class T>(T) {
    const Tensor lse({qkv.dim(0), z.heads, z.T}, dtype_of<Acc<T>>, qkv.device());
    if (y.numel())
      launch(forward<T>, grid_of_rows<Acc<T>>(z), qkv.ptr<T>(), y.ptr<T>(), lse.ptr<Acc<T>>(), z);
    return kernels::Attended{y, lse};
  });
}

Tensor backward_cuda(const Tensor& dy, const Tensor& y, const Tensor& qkv, const Tensor& lengths,
                     const Tensor& lse, const AttentionOptions& options) {
  const Sizes z(qkv, lengths, options);
  const Tensor dqkv = empty(qkv.shape(), qkv), delta = empty(lse.shape(), lse);
  if (qkv.numel() == 0) return dqkv;
  visit_stored(qkv.dtype(), [&]<class T>(T) {
    for (const auto kernel : {backward<T, false>, backward<T, true>})
      launch(kernel, grid_of_rows<Acc<T>>(z), qkv.ptr<T>(), y.ptr<T>(), dy.ptr<T>(),
             lse.ptr<Acc<T>>(), delta.ptr<Acc<T>>(), dqkv.ptr<T>(), z);
  });
  return dqkv;
}

const bool gpu = kernels::attention.on(Device::cuda, forward_cuda) &&
                 kernels::attention_backward.on(Device::cuda, backward_cuda);

}  // namespace
}  // namespace bellows
