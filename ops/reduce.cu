// Reductions on the GPU in one pass over x. If the reduced axes are innermost in memory, a warp or
// a block folds each element of y. Otherwise a column of threads does, and neighboring threads fold
// neighboring elements of y. Few long sums are split into parts, which a second launch folds in
// order.
#include "core/base/round.h"
#include "core/device/shared.cuh"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/line.cuh"
#include "ops/reduce.h"

namespace bellows {

namespace {

// ---- fold functions

template <class T> struct SumOf {
  using Part = double;
  T* y;
  double factor;

  __device__ static Part nothing() { return 0; }
  __device__ static Part part(Acc<T> x, int64_t) { return x; }
  __device__ Part operator()(Part a, Part b) const { return a + b; }
  __device__ void store(int64_t at, Part sum) const { y[at] = T(Acc<T>(sum * factor)); }
};

// Maximum: the first NaN, or else the first of the largest values.
template <class T> struct MaxOf {
  struct Part {
    Acc<T> value;
    int64_t index;  // negative: nothing yet
  };
  T* y;  // null if only the index is needed
  int64_t* index;

  __device__ static Part nothing() { return {0, -1}; }
  __device__ static Part part(Acc<T> x, int64_t index) { return {x, index}; }
  __device__ Part operator()(Part a, Part b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return a.value > b.value ? a : b;
    return a.index < b.index ? a : b;
  }
  __device__ void store(int64_t at, Part best) const {
    if (y) y[at] = T(best.value);
    index[at] = best.index;
  }
};

// ---- kernels

struct Job {
  Walk<3> outs;  // x, y, index: offsets of each element of y
  Walk<2> ins;   // x, index: offsets of the elements folded into it
  int64_t n_outs, n_ins;
  int64_t length = 0;    // elements of ins per part
  bool in_line = false;  // ins are contiguous in x
};

template <class R>
__device__ void finish(const Job& job, int64_t out, int64_t y_at, typename R::Part part, const R& r,
                       typename R::Part* parts) {
  if (gridDim.y == 1)
    r.store(y_at, part);
  else
    parts[blockIdx.y * job.n_outs + out] = part;
}

// One team per element of y. Blocks of kThreads threads; shared memory: kWarp partial results.
template <class R, class T>
__global__ void fold_rows(const T* x, Job job, Team team, R r, typename R::Part* parts) {
  const int64_t out = team.line(), begin = blockIdx.y * job.length;
  if (out >= job.n_outs) return;
  const int64_t n = std::min(job.length, job.n_ins - begin);
  const auto at = job.outs.at(out);
  auto mine = R::nothing();
  if (job.in_line) {
    const int64_t first = at[2] + begin * job.ins.steps[1], step = job.ins.steps[1];
    const auto take = [&](int64_t i, Acc<T> value) {
      mine = r(mine, R::part(value, first + i * step));
    };
    for_line<T>(n, 1, team, take, x + at[0] + begin);
  } else {
    for (int64_t i = begin + team.rank(); i < begin + n; i += team.size) {
      const auto in = job.ins.at(i);
      mine = r(mine, R::part(Acc<T>(x[at[0] + in[0]]), at[2] + in[1]));
    }
  }
  mine = team.fold(mine, R::nothing(), r, dynamic_shared<typename R::Part>());
  if (team.rank() == 0) finish(job, out, at[1], mine, r, parts);
}

// One column of threads (threadIdx.x) per element of y; shared memory: one result per thread.
template <class R, class T>
__global__ void fold_columns(const T* x, Job job, R r, typename R::Part* parts) {
  auto* const column = dynamic_shared<typename R::Part>() + threadIdx.x;  // blockDim.x apart
  const int64_t out = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t begin = blockIdx.y * job.length, end = std::min(begin + job.length, job.n_ins);
  const auto at = job.outs.at(std::min(out, job.n_outs - 1));
  auto mine = R::nothing();
  for (int64_t i = begin + threadIdx.y; out < job.n_outs && i < end; i += blockDim.y) {
    const auto in = job.ins.at(i);
    mine = r(mine, R::part(Acc<T>(x[at[0] + in[0]]), at[2] + in[1]));
  }
  column[threadIdx.y * blockDim.x] = mine;
  __syncthreads();
  if (threadIdx.y != 0 || out >= job.n_outs) return;
  for (unsigned row = 1; row < blockDim.y; ++row) mine = r(mine, column[row * blockDim.x]);
  finish(job, out, at[1], mine, r, parts);
}

// One block per element of y.
template <class R>
__global__ void fold_parts(const typename R::Part* parts, int n_parts, Job job, R r) {
  const int64_t out = blockIdx.x;
  auto mine = R::nothing();
  for (int part = threadIdx.x; part < n_parts; part += blockDim.x)
    mine = r(mine, parts[part * job.n_outs + out]);
  mine = block_fold(mine, R::nothing(), r, dynamic_shared<typename R::Part>());
  if (threadIdx.x == 0) r.store(job.outs.at(out)[1], mine);
}

// ---- plans; they depend on shape, strides and the GPU only

// True if the innermost axis in memory is reduced.
bool goes_innermost(const Tensor& x, const Shape& kept) {
  int innermost = -1;
  for (int i = 0; i < x.rank(); ++i)
    if (x.dim(i) > 1 && (innermost < 0 || x.strides()[i] < x.strides()[innermost])) innermost = i;
  return innermost >= 0 && kept[innermost] == 1;
}

Job plan_job(const Tensor& x, const Shape& kept, const Strides& index) {
  Shape gone = x.shape();
  for (int i = 0; i < x.rank(); ++i)
    if (kept[i] == x.dim(i)) gone[i] = 1;
  const Strides y = strides_of(kept);
  Job job{.outs = Walk<3>(kept, {&x.strides(), &y, &index}),
          .ins = Walk<2>(gone, {&x.strides(), &index}),
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

template <class T, class R>
void fold(const Tensor& x, const Shape& kept, const Strides& index, const R& r) {
  using Part = typename R::Part;
  Job job = plan_job(x, kept, index);
  // Rows of a few elements are folded by one thread each; neighboring threads share cache lines.
  const bool rows = goes_innermost(x, kept) && job.n_ins >= kWarp / 2;
  const Team team = team_for(job.n_ins, 1);
  const dim3 tile = job.n_ins >= kWarp ? dim3(kWarp, kThreads / kWarp) : dim3(kThreads, 1);
  const int64_t of_a_block = rows ? kThreads / team.size : tile.x;
  const int64_t blocks = ceil_div(job.n_outs, of_a_block);
  const int n_parts = cut_into_parts(job, blocks, rows ? 4096 : 16 * tile.y);
  Tensor parts;
  if (n_parts > 1)
    parts = Tensor({n_parts * job.n_outs * int64_t(sizeof(Part))}, DType::u8, x.device());
  Part* const parts_ = n_parts > 1 ? reinterpret_cast<Part*>(parts.bytes()) : nullptr;
  const dim3 grid(blocks, n_parts);
  if (rows)
    launch(fold_rows<R, T>, {grid, kThreads, kWarp * sizeof(Part)}, x.ptr<T>(), job, team, r,
           parts_);
  else
    launch(fold_columns<R, T>, {grid, tile, kThreads * sizeof(Part)}, x.ptr<T>(), job, r, parts_);
  if (n_parts > 1)
    launch(fold_parts<R>, {unsigned(job.n_outs), kThreads, kWarp * sizeof(Part)}, parts_, n_parts,
           job, r);
}

// ---- kernels declared in ops/reduce.h

Tensor sum_cuda(const Tensor& x, const Shape& kept, double factor) {
  if (x.numel() == 0) return full(kept, 0 * factor, x);
  const Tensor y = empty(kept, x);
  Strides no_index = x.shape();
  for (int i = 0; i < x.rank(); ++i) no_index[i] = 0;
  visit_stored(x.dtype(), [&]<class T>(T) {
    fold<T>(x, kept, no_index, SumOf<T>{y.ptr<T>(), factor});
  });
  return y;
}

kernels::Max max_cuda(const Tensor& x, const Shape& kept) {
  const Tensor y = empty(kept, x), index(kept, DType::i64, x.device());
  visit_stored(x.dtype(), [&]<class T>(T) {
    fold<T>(x, kept, strides_of(x.shape()), MaxOf<T>{y.ptr<T>(), index.ptr<int64_t>()});
  });
  return {y, index};
}

Tensor argmax_cuda(const Tensor& x, int axis) {
  Shape kept = x.shape();
  kept[axis] = 1;
  Strides along = x.shape();
  for (int i = 0; i < x.rank(); ++i) along[i] = i == axis;
  const Tensor index(kept, DType::i64, x.device());
  visit_stored(x.dtype(), [&]<class T>(T) {
    fold<T>(x, kept, along, MaxOf<T>{nullptr, index.ptr<int64_t>()});
  });
  return index;
}

template <class T> __global__ void scatter(T* dx, const T* dy, const int64_t* index, int64_t n) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) dx[index[i]] = dy[i];
}

Tensor max_backward_cuda(const Tensor& dy, const Tensor& index, const Shape& shape) {
  const Tensor dense = contiguous(dy), dx = full(shape, 0, dy);
  visit_stored(dy.dtype(), [&]<class T>(T) {
    launch(scatter<T>, grid_of(dy.numel()), dx.ptr<T>(), dense.ptr<T>(), index.ptr<int64_t>(),
           dy.numel());
  });
  return dx;
}

const bool gpu = kernels::sum.on(Device::cuda, sum_cuda) &&
                 kernels::max.on(Device::cuda, max_cuda) &&
                 kernels::argmax.on(Device::cuda, argmax_cuda) &&
                 kernels::max_backward.on(Device::cuda, max_backward_cuda);

}  // namespace
}  // namespace bellows
