// Cross-entropy on the GPU: one warp or block per row of logits (N, C). Each block adds up the
// losses of its rows, a second launch those of the blocks, all in a fixed order. A small batch is a
// single block, without a second launch. Reads the logits once per pass.
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "ops/cross_entropy.cuh"
#include "ops/cross_entropy.h"

namespace bellows {

namespace {

// Sums `mine` over the block. A single block writes the loss, several write their sums to parts.
template <class T>
__device__ void reduce_loss(double mine, double* parts, T* loss, int64_t N, double* scratch) {
  const double sum = block_sum(mine, scratch);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    *loss = T(Acc<T>(sum / N));
  else
    parts[blockIdx.x] = sum;
}

// A small batch runs in one block of up to 1024 threads, which limits the registers per thread.
template <class T>
__global__ void __launch_bounds__(1024) forward(const T* x, Targets targets, int64_t N, Acc<T>* lse,
                                                double* parts, T* loss, Team team) {
  auto* const scratch = dynamic_shared<Exps<double>>();  // large enough for every fold below
  double mine = 0;
  for (int64_t n = team.line(); n < N; n += gridDim.x * team.lines())
    mine += loss_of_row(x + n * targets.classes, n, targets, team, scratch, lse);
  reduce_loss(mine, parts, loss, N, reinterpret_cast<double*>(scratch));
}

template <class T> __global__ void mean_of(const double* parts, int n_parts, int64_t N, T* loss) {
  double mine = 0;
  for (int part = threadIdx.x; part < n_parts; part += blockDim.x) mine += parts[part];
  reduce_loss<T>(mine, nullptr, loss, N, dynamic_shared<double>());
}

// dx = (softmax(x) - q) * dy / N
template <class T>
__global__ void backward(const T* dy, const T* x, Targets targets, int64_t N, const Acc<T>* lse,
                         T* dx, Team team) {
  const int64_t n = team.line(), C = targets.classes;
  if (n >= N) return;
  const auto slope = slope_of_row(Acc<T>(*dy), n, N, lse, targets);
  map_line(dx + n * C, C, 1, team, slope, x + n * C);
}

Grid grid_of_rows(int64_t N, int64_t C, Team team) {
  constexpr int64_t kWorthASecondLaunch = 32768;
  Grid grid = grid_of_lines(N, team);
  grid.blocks.x = std::min<int64_t>(grid.blocks.x, 4 * cuda::limits().multiprocessors);
  if (team.size == kWarp && N * C <= kWorthASecondLaunch) {
    grid.blocks.x = 1;
    grid.threads.x = std::min<int64_t>(N, kWarp) * kWarp;
  }
  grid.shared_bytes = kWarp * sizeof(Exps<double>);
  return grid;
}

kernels::CrossEntropy forward_cuda(const Tensor& logits, const Tensor& target, double smoothing) {
  const Tensor x = contiguous(logits);
  const int64_t N = x.dim(0), C = x.dim(1);
  const Team team = team_for(C, 1);
  const Grid grid = grid_of_rows(N, C, team);
  const int blocks = int(grid.blocks.x);
  const Tensor parts({blocks}, DType::f64, x.device());
  return visit_stored(x.dtype(), [&]<class T>(T) {
    const Tensor loss = empty({}, x), lse({N, 2}, dtype_of<Acc<T>>, x.device());
    launch(forward<T>, grid, x.ptr<T>(), targets_of(target, C, smoothing), N, lse.ptr<Acc<T>>(),
           parts.ptr<double>(), loss.ptr<T>(), team);
    if (blocks > 1)
      launch(mean_of<T>, {1, kThreads, kWarp * sizeof(double)}, parts.ptr<double>(), blocks, N,
             loss.ptr<T>());
    return kernels::CrossEntropy{loss, lse};
  });
}

Tensor backward_cuda(const Tensor& dy, const Tensor& logits, const Tensor& target,
                     const Tensor& lse, double smoothing) {
  const Tensor x = contiguous(logits), dx = empty(x.shape(), x);
  const int64_t N = x.dim(0), C = x.dim(1);
  const Team team = team_for(C, 1);
  visit_stored(x.dtype(), [&]<class T>(T) {
    launch(backward<T>, grid_of_lines(N, team), dy.ptr<T>(), x.ptr<T>(),
           targets_of(target, C, smoothing), N, lse.ptr<Acc<T>>(), dx.ptr<T>(), team);
  });
  return dx;
}

// Refusing a label would need a wait for the device; a wrong label makes the loss NaN instead.
void leave_labels(const Tensor&, int64_t) {}

const bool gpu = kernels::cross_entropy.on(Device::cuda, forward_cuda) &&
                 kernels::cross_entropy_backward.on(Device::cuda, backward_cuda) &&
                 kernels::check_labels.on(Device::cuda, leave_labels);

}  // namespace
}  // namespace bellows
