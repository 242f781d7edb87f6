// layer_norm on the GPU, in blocks of kThreads threads. A warp or a block takes a row.
#include "core/device/shared.cuh"
#include "core/tensor/line.cuh"
#include "ops/norm/batch_norm.cuh"
#include "ops/norm/layer_norm.h"

namespace bellows {

using batch_norm_cuda::Batch, batch_norm_cuda::Sums;

// Moves x and y once, and reads x twice more from a cache. Shared memory: one A per warp.
template <class T, class A = Acc<T>>
__global__ void normalize(const T* x, T* y, A* statistics, const A* weight, const A* bias, A eps,
                          int64_t rows, int64_t n, Team team) {
  const int64_t row = team.line();
  if (row >= rows) return;
  const auto mean_of = [&](const auto& term) {
    A sum = 0;
    for_line<T>(
        n, team, [&](int64_t, A value) { sum += term(value); }, x + row * n);
    return team.fold(sum, A(0), Plus(), dynamic_shared<A>()) / A(n);
  };
  const A mean = mean_of([](A value) { return value; });
  const A var = mean_of([=](A value) { return (value - mean) * (value - mean); });
  const A scale = 1 / std::sqrt(var + eps);
  if (team.rank() == 0) statistics[row] = mean, statistics[rows + row] = var;
  const auto result = [=](int64_t i, A v) { return (v - mean) * scale * weight[i] + bias[i]; };
  map_line(y + row * n, n, team, result, x + row * n);
}

// Moves dy, x and dx once, and reads dy and x again from a cache. Shared memory: one Sums per warp.
template <class T, class A = Acc<T>>
__global__ void backward_rows(const T* dy, const T* x, T* dx, Batch<A> batch, const A* weight,
                              int64_t rows, int64_t n, Team team) {
  const int64_t row = team.line();
  if (row >= rows) return;
  const A mean = batch.mean[row], scale = batch.inverse_deviation(int(row));
  Sums<A> sums;
  const auto add = [&](int64_t i, A dy, A value) {
    const A g = dy * weight[i];
    sums = sums + Sums<A>{g, g * (value - mean)};
  };
  for_line<T>(n, team, add, dy + row * n, x + row * n);
  sums = team.fold(sums, Sums<A>(), Plus(), dynamic_shared<Sums<A>>());
  const A shift = sums.first / A(n), slope = sums.second / A(n) * scale * scale;
  const auto result = [=](int64_t i, A dy, A value) {
    return (dy * weight[i] - shift - (value - mean) * slope) * scale;
  };
  map_line(dx + row * n, n, team, result, dy + row * n, x + row * n);
}

// Sums over kPart rows: blockIdx.x is the part, a thread has one column. Moves dy and x once.
constexpr int64_t kPart = 32;
template <class T, class A = Acc<T>>
__global__ void sum_part(const T* dy, const T* x, A* parts, Batch<A> batch, int64_t rows,
                         int64_t n) {
  const int64_t column = int64_t(blockIdx.y) * kThreads + threadIdx.x, first = blockIdx.x * kPart;
  if (column >= n) return;
  A dw = 0, db = 0;
  for (int64_t row = first; row < std::min(rows, first + kPart); ++row) {
    const A g = A(dy[row * n + column]), d = A(x[row * n + column]) - batch.mean[row];
    dw += g * d * batch.inverse_deviation(int(row));
    db += g;
  }
  A* const part = parts + blockIdx.x * 2 * n + column;
  part[0] = dw, part[n] = db;
}

static Tensor forward_cuda(const Tensor& x, const kernels::Normalization& norm) {
  const Tensor y = empty(x.shape(), x);
  if (x.numel() == 0) return y;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    const Team team = team_for(x.dim(1));
    Grid grid = grid_of_lines(x.dim(0), team);
    grid.shared_bytes = kWarp * sizeof(A);
    launch(normalize<T>, grid, x.ptr<T>(), y.ptr<T>(), norm.statistics.ptr<A>(),
           norm.weight.ptr<A>(), norm.bias.ptr<A>(), A(norm.eps), x.dim(0), x.dim(1), team);
  });
  return y;
}

static kernels::LayerNormGrads backward_cuda(const Tensor& dy, const Tensor& x,
                                             const kernels::Normalization& norm) {
  const int64_t N = x.dim(0), D = x.dim(1), parts = ceil_div(N, kPart);
  const kernels::LayerNormGrads grads{empty(x.shape(), x), empty({parts, 2, D}, norm.weight)};
  if (x.numel() == 0) return grads;
  visit_stored(x.dtype(), [&]<class T>(T) {
    using A = Acc<T>;
    const Batch<A> batch(norm.statistics, norm.eps);
    const Team team = team_for(D);
    Grid grid = grid_of_lines(N, team);
    grid.shared_bytes = kWarp * sizeof(Sums<A>);
    launch(backward_rows<T>, grid, dy.ptr<T>(), x.ptr<T>(), grads.dx.ptr<T>(), batch,
           norm.weight.ptr<A>(), N, D, team);
    launch(sum_part<T>, {dim3(unsigned(parts), unsigned(ceil_div(D, kThreads))), kThreads},
           dy.ptr<T>(), x.ptr<T>(), grads.parts.ptr<A>(), batch, N, D);
  });
  return grads;
}

static const bool gpu = kernels::layer_norm.on(Device::cuda, forward_cuda) &&
                        kernels::layer_norm_backward.on(Device::cuda, backward_cuda);

}  // namespace bellows
