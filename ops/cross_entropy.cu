// Cross-entropy on the GPU: one warp or block per row of logits (N, C). Each block adds up the
// losses of its rows, a second launch those of the blocks, all in a fixed order. A small batch is a
// single block, without a second launch. Reads the logits once per pass.
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/line.cuh"
#include "ops/cross_entropy.h"
#include "ops/exps.cuh"

namespace bellows {

namespace {

// ---- one row of logits

struct Targets {
  const int64_t* labels;
  int64_t step, classes;
  double smoothing;
  __device__ int64_t label(int64_t n) const { return labels[n * step]; }
  __device__ bool counts(int64_t n) const { return label(n) != kLeftOut; }
  __device__ bool valid(int64_t label) const { return label >= 0 && label < classes; }
};
Targets targets_of(const Tensor& target, int64_t classes, double smoothing) {
  return {target.ptr<int64_t>(), target.strides()[0], classes, smoothing};
}

// Returns the loss of row n, whose logits are x, on rank 0 of the team, which writes row n of lse;
// 0 on other ranks. The loss is log_sum - (1 - s) * (x[label] - max) - s * (mean(x) - max) with
// log_sum = log(sum(exp(x - max))). A row that is left out is not read, and its lse is not written.
// scratch: shared memory for one Exps<double> per warp, if the team is a block.
template <class T>
__device__ double loss_of_row(const T* x, int64_t n, const Targets& t, Team team,
                              Exps<double>* scratch, Acc<T>* lse) {
  using A = Acc<T>;
  if (!t.counts(n)) return 0;
  Exps<A> exps = Exps<A>::nothing();
  A sum = 0;
  const auto take = [&](int64_t, A value) {
    exps.take(value);
    sum += value;
  };
  for_line<T>(t.classes, team, take, x);
  exps = team.fold(exps, Exps<A>::nothing(), JoinExps(), reinterpret_cast<Exps<A>*>(scratch));
  sum = team.fold(sum, A(0), Plus(), reinterpret_cast<A*>(scratch));
  if (team.rank() != 0) return 0;
  const A log_sum = std::log(exps.sum);
  lse[2 * n] = exps.max;
  lse[2 * n + 1] = log_sum;
  const int64_t label = t.label(n);
  if (!t.valid(label)) return NAN;
  const double max = exps.max, loss = log_sum - (1 - t.smoothing) * (A(x[label]) - max);
  return t.smoothing > 0 ? loss - t.smoothing * (double(sum) / t.classes - max) : loss;
}

// Gradient of the logits of one row: (softmax(x) - q) * dy / divisor, or 0 if it is left out
template <class A> struct SlopeOfRow {
  int64_t label = kLeftOut;
  A scale = 0, own = 0, even = 0, max = 0, log_sum = 0;

  __device__ A operator()(int64_t c, A x) const {
    if (label == kLeftOut) return 0;
    return (std::exp(x - max - log_sum) - even - (c == label ? own : A(0))) * scale;
  }
};
template <class A>
__device__ SlopeOfRow<A> slope_of_row(A dy, int64_t n, double divisor, const A* lse,
                                      const Targets& t) {
  const int64_t label = t.label(n);
  if (!t.counts(n)) return {};
  return {label,
          t.valid(label) ? dy / A(divisor) : A(NAN),
          A(1 - t.smoothing),
          A(t.smoothing / t.classes),
          lse[2 * n],
          lse[2 * n + 1]};
}

// ---- all rows

// A sum of losses, and the number of its rows.
struct LossSum {
  double loss = 0, rows = 0;
  __device__ LossSum operator+(const LossSum& other) const {
    return {loss + other.loss, rows + other.rows};
  }
};

// Results of a forward pass, and the divisor of the caller; null: the number of rows that count.
template <class T> struct Results {
  T* loss;
  double* divisor;
  const float* given;

  __device__ void write(const LossSum& sum) const {
    *divisor = given ? double(*given) : std::max(sum.rows, 1.0);
    *loss = T(Acc<T>(sum.loss / *divisor));
  }
};

// Sums `mine` over the block. A single block writes the results, several write sums to parts.
template <class T>
__device__ void reduce_loss(const LossSum& mine, LossSum* parts, const Results<T>& results,
                            LossSum* scratch) {
  const LossSum sum = block_fold(mine, LossSum{}, Plus(), scratch);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    results.write(sum);
  else
    parts[blockIdx.x] = sum;
}

// A small batch runs in one block of up to 1024 threads, which limits the registers per thread.
template <class T>
__global__ void __launch_bounds__(1024) forward(const T* x, Targets targets, int64_t N, Acc<T>* lse,
                                                LossSum* parts, Results<T> results, Team team) {
  auto* const scratch = dynamic_shared<Exps<double>>();  // large enough for every fold below
  LossSum mine;
  for (int64_t n = team.line(); n < N; n += gridDim.x * team.lines()) {
    mine.loss += loss_of_row(x + n * targets.classes, n, targets, team, scratch, lse);
    mine.rows += team.rank() == 0 && targets.counts(n);
  }
  reduce_loss(mine, parts, results, reinterpret_cast<LossSum*>(scratch));
}

template <class T> __global__ void add_parts(LossSum* parts, int n_parts, Results<T> results) {
  LossSum mine;
  for (int part = threadIdx.x; part < n_parts; part += blockDim.x) mine = mine + parts[part];
  reduce_loss(mine, parts, results, dynamic_shared<LossSum>());
}

// dx = (softmax(x) - q) * dy / divisor
template <class T>
__global__ void backward(const T* dy, const T* x, Targets targets, int64_t N, const Acc<T>* lse,
                         const double* divisor, T* dx, Team team) {
  const int64_t n = team.line(), C = targets.classes;
  if (n >= N) return;
  const auto slope = slope_of_row(Acc<T>(*dy), n, *divisor, lse, targets);
  map_line(dx + n * C, C, team, slope, x + n * C);
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

kernels::CrossEntropy forward_cuda(const Tensor& logits, const Tensor& target,
                                   const Tensor& divisor, double smoothing) {
  const Tensor x = contiguous(logits);
  const int64_t N = x.dim(0), C = x.dim(1);
  const Team team = team_for(C);
  const Grid grid = grid_of_rows(N, C, team);
  const int blocks = int(grid.blocks.x);
  const Tensor parts({blocks, 2}, DType::f64, x.device()), over({}, DType::f64, x.device());
  auto* const parts_ = reinterpret_cast<LossSum*>(parts.ptr<double>());
  const float* const given = divisor.defined() ? divisor.ptr<float>() : nullptr;
  return visit_stored(x.dtype(), [&]<class T>(T) {
    const Tensor loss = empty({}, x), lse({N, 2}, dtype_of<Acc<T>>, x.device());
    const Results<T> results{loss.ptr<T>(), over.ptr<double>(), given};
    launch(forward<T>, grid, x.ptr<T>(), targets_of(target, C, smoothing), N, lse.ptr<Acc<T>>(),
           parts_, results, team);
    if (blocks > 1)
      launch(add_parts<T>, {1, kThreads, kWarp * sizeof(LossSum)}, parts_, blocks, results);
    return kernels::CrossEntropy{loss, lse, over};
  });
}

Tensor backward_cuda(const Tensor& dy, const Tensor& logits, const Tensor& target,
                     const Tensor& lse, const Tensor& divisor, double smoothing) {
  const Tensor x = contiguous(logits), dx = empty(x.shape(), x);
  const int64_t N = x.dim(0), C = x.dim(1);
  const Team team = team_for(C);
  visit_stored(x.dtype(), [&]<class T>(T) {
    launch(backward<T>, grid_of_lines(N, team), dy.ptr<T>(), x.ptr<T>(),
           targets_of(target, C, smoothing), N, lse.ptr<Acc<T>>(), divisor.ptr<double>(),
           dx.ptr<T>(), team);
  });
  return dx;
}

const bool gpu = kernels::cross_entropy.on(Device::cuda, forward_cuda) &&
                 kernels::cross_entropy_backward.on(Device::cuda, backward_cuda);

}  // namespace
}  // namespace bellows
