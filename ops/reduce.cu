// Reductions on the GPU in one pass over x. If the reduced axes are innermost in memory, a warp or
// a block computes each sum. Otherwise a column of threads does, and neighboring threads compute
// neighboring sums. Few long sums are split into parts, which a second launch adds up in order.
#include "core/base/round.h"
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/line.cuh"
#include "ops/reduce.h"

namespace bellows {

namespace {

// ---- kernels

struct Job {
  Walk<2> outs;  // x, y: offsets of each element of y
  Walk<1> ins;   // x: offsets of the elements that it sums
  int64_t n_outs, n_ins;
  int64_t length = 0;    // elements of ins per part
  bool in_line = false;  // ins are contiguous in x
};

// Sums go to y, times a factor; or to `parts`, if each is split.
template <class T> struct Target {
  __device__ void store(int64_t at, double sum) const { y[at] = T(Acc<T>(sum * factor)); }
  __device__ void finish(const Job& job, int64_t out, int64_t y_at, double sum) const {
    if (gridDim.y == 1)
      store(y_at, sum);
    else
      parts[blockIdx.y * job.n_outs + out] = sum;
  }
  T* y;
  double factor;
  double* parts = nullptr;
};

// One team per element of y. Blocks of kThreads threads; shared memory: kWarp partial results.
template <class T> __global__ void sum_rows(const T* x, Job job, Team team, Target<T> target) {
  const int64_t out = team.line(), begin = blockIdx.y * job.length;
  if (out >= job.n_outs) return;
  const int64_t n = std::min(job.length, job.n_ins - begin);
  const auto at = job.outs.at(out);
  double mine = 0;
  if (job.in_line) {
    for_line<T>(
        n, team, [&](int64_t, Acc<T> value) { mine += value; }, x + at[0] + begin);
  } else {
    for (int64_t i = begin + team.rank(); i < begin + n; i += team.size)
      mine += Acc<T>(x[at[0] + job.ins.at(i)[0]]);
  }
  mine = team.fold(mine, 0.0, Plus(), dynamic_shared<double>());
  if (team.rank() == 0) target.finish(job, out, at[1], mine);
}

// One column of threads (threadIdx.x) per element of y; shared memory: one result per thread.
template <class T> __global__ void sum_columns(const T* x, Job job, Target<T> target) {
  double* const column = dynamic_shared<double>() + threadIdx.x;  // blockDim.x apart
  const int64_t out = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t begin = blockIdx.y * job.length, end = std::min(begin + job.length, job.n_ins);
  const auto at = job.outs.at(std::min(out, job.n_outs - 1));
  double mine = 0;
  for (int64_t i = begin + threadIdx.y; out < job.n_outs && i < end; i += blockDim.y)
    mine += Acc<T>(x[at[0] + job.ins.at(i)[0]]);
  column[threadIdx.y * blockDim.x] = mine;
  __syncthreads();
  if (threadIdx.y != 0 || out >= job.n_outs) return;
  for (unsigned row = 1; row < blockDim.y; ++row) mine += column[row * blockDim.x];
  target.finish(job, out, at[1], mine);
}

// One block per element of y.
template <class T> __global__ void sum_parts(int n_parts, Job job, Target<T> target) {
  const int64_t out = blockIdx.x;
  double mine = 0;
  for (int part = threadIdx.x; part < n_parts; part += blockDim.x)
    mine += target.parts[part * job.n_outs + out];
  mine = block_fold(mine, 0.0, Plus(), dynamic_shared<double>());
  if (threadIdx.x == 0) target.store(job.outs.at(out)[1], mine);
}

// ---- plans; they depend on shape, strides and the GPU only

// True if the innermost axis in memory is reduced.
bool goes_innermost(const Tensor& x, const Shape& kept) {
  int innermost = -1;
  for (int i = 0; i < x.rank(); ++i)
    if (x.dim(i) > 1 && (innermost < 0 || x.strides()[i] < x.strides()[innermost])) innermost = i;
  return innermost >= 0 && kept[innermost] == 1;
}

Job plan_job(const Tensor& x, const Shape& kept) {
  Shape gone = x.shape();
  for (int i = 0; i < x.rank(); ++i)
    if (kept[i] == x.dim(i)) gone[i] = 1;
  const Strides y = strides_of(kept);
  Job job{.outs = Walk<2>(kept, {&x.strides(), &y}),
          .ins = Walk<1>(gone, {&x.strides()}),
          .n_outs = kept.numel(),
          .n_ins = gone.numel()};
  job.in_line = job.ins.rows == 1 && (job.ins.steps[0] == 1 || job.n_ins == 1);
  return job;
}

// Splits each sum into parts of at least `least` elements, until the GPU is full.
int cut_into_parts(Job& job, int64_t blocks, int64_t least) {
  const int64_t most = std::max<int64_t>(job.n_ins / least, 1);
  const int64_t parts = std::clamp<int64_t>(resident_blocks() / blocks, 1, most);
  job.length = round_up(ceil_div(job.n_ins, parts), 8);  // whole packs
  return int(ceil_div(job.n_ins, job.length));
}

template <class T> void sum_into(const Tensor& y, const Tensor& x, double factor) {
  const Shape& kept = y.shape();
  Job job = plan_job(x, kept);
  // Rows of a few elements are summed by one thread each; neighboring threads share cache lines.
  const bool rows = goes_innermost(x, kept) && job.n_ins >= kWarp / 2;
  const Team team = team_for(job.n_ins);
  const dim3 tile = job.n_ins >= kWarp ? dim3(kWarp, kThreads / kWarp) : dim3(kThreads, 1);
  const int64_t of_a_block = rows ? kThreads / team.size : tile.x;
  const int64_t blocks = ceil_div(job.n_outs, of_a_block);
  const int n_parts = cut_into_parts(job, blocks, rows ? 4096 : 16 * tile.y);
  Tensor parts;
  if (n_parts > 1) parts = Tensor({n_parts * job.n_outs}, DType::f64, x.device());
  const Target<T> target{y.ptr<T>(), factor, n_parts > 1 ? parts.ptr<double>() : nullptr};
  const dim3 grid(blocks, n_parts);
  if (rows)
    launch(sum_rows<T>, {grid, kThreads, kWarp * sizeof(double)}, x.ptr<T>(), job, team, target);
  else
    launch(sum_columns<T>, {grid, tile, kThreads * sizeof(double)}, x.ptr<T>(), job, target);
  if (n_parts > 1)
    launch(sum_parts<T>, {unsigned(job.n_outs), kThreads, kWarp * sizeof(double)}, n_parts, job,
           target);
}

Tensor sum_cuda(const Tensor& x, const Shape& kept, double factor) {
  if (x.numel() == 0) return full(kept, 0 * factor, x);
  const Tensor y = empty(kept, x);
  visit_stored(x.dtype(), [&]<class T>(T) { sum_into<T>(y, x, factor); });
  return y;
}

const bool gpu = kernels::sum.on(Device::cuda, sum_cuda);

}  // namespace
}  // namespace bellows
