// linear_tail on the GPU. Forward computes two rows of the batch in each block, through all layers;
// every block reads all weights, from L2 after the first. Backward computes the gradients of the
// hidden outputs likewise, then all products of dw, db and dx in one launch. With a loss, forward
// ends with it, and backward begins with the gradients of the logits. Each sum is added in one
// block, in a fixed order.
#include "core/device/reduce.cuh"
#include "core/tensor/copy.h"
#include "ops/base/functors.h"
#include "ops/cross_entropy.cuh"
#include "ops/matmul/linear.cuh"
#include "ops/matmul/linear_tail.h"

namespace bellows {

using kernels::kMostTailFeatures;
using kernels::kMostTailLayers;

namespace {

constexpr int kBlock = 1024, kRows = 2, kWarps = kBlock / kWarp;
static_assert(kMostTailFeatures <= kBlock);  // backward_rows has a thread for each of them

// All row-major, but x may have any strides. b: null if there is none.
template <class T> struct TailLayer {
  const T *x, *w, *b;
  T *y, *dy;  // of its output, (N, out)
  int in, out;
  int64_t x_row, x_column;
};
// N rows of lse, N parts (losses of rows) and one loss; dy: of the loss. lse: null if there
// is no loss.
template <class T> struct TailLoss {
  Targets targets;
  Acc<T>* lse;
  double* parts;
  Acc<T>* loss;
  const Acc<T>* dy;
};
template <class T> struct Tail {
  TailLayer<T> layers[kMostTailLayers];
  int count, rows, width;  // width: of the widest layer
  TailLoss<T> loss;
};

// Loads rows first .. first + kRows - 1 of (rows, columns) into `to` (kRows, width). Repeats the
// last row instead of reading past it.
template <class T>
__device__ void load_rows(const Tail<T>& tail, int first, const T* from, int64_t row,
                          int64_t column, int columns, Acc<T>* to) {
  for (int i = threadIdx.x; i < kRows * columns; i += kBlock) {
    const int r = i / columns, c = i % columns, n = std::min(first + r, tail.rows - 1);
    to[r * tail.width + c] = Acc<T>(from[n * row + c * column]);
  }
}

// One warp for each output: its lanes read a row of w together.
template <class T>
__device__ void multiply_rows(const Tail<T>& tail, const TailLayer<T>& z, bool relu, int first,
                              const Acc<T>* in, Acc<T>* out) {
  const int lane = threadIdx.x % kWarp;
  for (int o = threadIdx.x / kWarp; o < z.out; o += kWarps) {
    Acc<T> sum[kRows] = {}, mine = 0;
#pragma unroll 4
    for (int i = lane; i < z.in; i += kWarp) {
      const Acc<T> w(z.w[int64_t(o) * z.in + i]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] += in[r * tail.width + i] * w;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Acc<T> total = warp_sum(sum[r]);
      if (lane == r) mine = total;
    }
    if (lane >= kRows) continue;
    if (z.b) mine += Acc<T>(z.b[o]);
    const T y(relu ? functors::Relu::value(mine) : mine);
    out[lane * tail.width + o] = Acc<T>(y);
    if (first + lane < tail.rows) z.y[int64_t(first + lane) * z.out + o] = y;
  }
}

__device__ unsigned loss_ticket;

// One warp for the logits (width) of each row. The block that ends last adds up the losses of all
// rows.
template <class T>
__device__ void add_losses(const Tail<T>& tail, int first, const Acc<T>* logits) {
  const TailLoss<T>& z = tail.loss;
  const int warp = threadIdx.x / kWarp, n = first + warp;
  __syncthreads();
  if (warp < kRows && n < tail.rows) {
    const double loss =
        loss_of_row(logits + warp * tail.width, n, z.targets, Team{kWarp}, nullptr, z.lse);
    if (threadIdx.x % kWarp == 0) z.parts[n] = loss;
  }
  if (!is_last_block(&loss_ticket)) return;
  double sum = 0;
  for (int i = threadIdx.x; i < tail.rows; i += kBlock) sum += z.parts[i];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) *z.loss = Acc<T>(sum / tail.rows);
}

// Blocks of kBlock threads for kRows rows. Shared memory: inputs and outputs of one layer, 2 kRows
// width values, or a double per warp. Bytes read by each block: all weights, 4 per thread and load.
template <class T> __global__ void __launch_bounds__(kBlock) forward_rows(Tail<T> tail) {
  await_predecessor();
  Acc<T>* const rows = dynamic_shared<Acc<T>>();
  const int first = int(blockIdx.x) * kRows, half = kRows * tail.width;
  const TailLayer<T>& z = tail.layers[0];
  load_rows(tail, first, z.x, z.x_row, z.x_column, z.in, rows);
  for (int l = 0; l < tail.count; ++l) {
    __syncthreads();
    multiply_rows(tail, tail.layers[l], l + 1 < tail.count, first, rows + l % 2 * half,
                  rows + (l + 1) % 2 * half);
  }
  if (tail.loss.lse) add_losses(tail, first, rows + tail.count % 2 * half);
}

// Computes the gradients of the logits, (kRows, width), as load_rows would load them, and stores
// them for backward_products.
template <class T>
__device__ void compute_slopes(const Tail<T>& tail, const TailLayer<T>& last, int first,
                               Acc<T>* to) {
  const TailLoss<T>& z = tail.loss;
#pragma unroll 1  // unrolled, backward_rows<float> has too few registers
  for (int i = threadIdx.x; i < kRows * last.out; i += kBlock) {
    const int r = i / last.out, c = i % last.out, n = std::min(first + r, tail.rows - 1);
    const int64_t at = int64_t(n) * last.out + c;
    const T d(slope_of_row(*z.dy, n, tail.rows, z.lse, z.targets)(c, Acc<T>(last.y[at])));
    to[r * tail.width + c] = Acc<T>(d);
    if (first + r < tail.rows) last.dy[at] = d;
  }
}

// Gradient of the hidden outputs h, from the last to the first:
//
//   dh(n, i) = slope of relu at h(n, i) * sum over o of dy(n, o) w(o, i)
//
// Blocks of kBlock threads for kRows rows: teams of a thread for each i split the values of o.
// Shared memory: dy and dh, 2 kRows width values, and kRows sums per thread; 48 KiB at most.
template <class T> __global__ void __launch_bounds__(kBlock) backward_rows(Tail<T> tail) {
  await_predecessor();
  Acc<T>* const rows = dynamic_shared<Acc<T>>();
  const int first = int(blockIdx.x) * kRows, half = kRows * tail.width;
  Acc<T>* const parts = rows + 2 * half;  // (teams, kRows, across)
  const TailLayer<T>& last = tail.layers[tail.count - 1];
  if (tail.loss.lse)
    compute_slopes(tail, last, first, rows);
  else
    load_rows(tail, first, last.dy, last.out, 1, last.out, rows);
  for (int l = tail.count - 1, side = 0; l > 0; --l, side ^= 1) {
    const TailLayer<T>&z = tail.layers[l], &below = tail.layers[l - 1];
    const Acc<T>* const dy = rows + side * half;
    Acc<T>* const dh = rows + (side ^ 1) * half;
    const int across = round_up(z.in, kWarp), teams = kBlock / across;
    const int team = int(threadIdx.x) / across, i = int(threadIdx.x) % across;
    __syncthreads();
    Acc<T> sum[kRows] = {};
    for (int o = team; i < z.in && team < teams && o < z.out; o += teams) {
      const Acc<T> w(z.w[int64_t(o) * z.in + i]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] += dy[r * tail.width + o] * w;
    }
    for (int r = 0; r < kRows && team < teams; ++r) parts[(team * kRows + r) * across + i] = sum[r];
    __syncthreads();
    for (int j = threadIdx.x; j < kRows * z.in; j += kBlock) {
      const int r = j / z.in, c = j % z.in, n = std::min(first + r, tail.rows - 1);
      Acc<T> total = parts[r * across + c];
      for (int t = 1; t < teams; ++t) total += parts[(t * kRows + r) * across + c];
      const int64_t at = int64_t(n) * z.in + c;
      const T d(Acc<T>(T(total)) * functors::Relu::slope(Acc<T>(below.y[at])));
      dh[r * tail.width + c] = Acc<T>(d);
      if (first + r < tail.rows) below.dy[at] = d;
    }
  }
}

template <class T> struct TailGrads {
  WriteDw<T> w[kMostTailLayers];
  int blocks_of_w[kMostTailLayers];
  WriteDx<T> x;
};

// The tiles of each layer's dw and db, then those of dx. Blocks and shared memory as in
// gemm::multiply.
template <class T> __global__ void backward_products(Tail<T> tail, TailGrads<T> grads) {
  await_predecessor();
  using Matrix = gemm::Matrix<T>;
  int block = int(blockIdx.x), l = 0;
  while (l < tail.count && block >= grads.blocks_of_w[l]) block -= grads.blocks_of_w[l++];
  const TailLayer<T>& z = tail.layers[l < tail.count ? l : 0];
  if (l < tail.count)
    gemm::multiply_tile<gemm::Narrow>(block, Matrix{z.dy, 0, 1, z.out, z.out, tail.rows},
                                      WithOnes<T>{{z.x, 0, z.x_column, z.x_row, z.in, tail.rows}},
                                      grads.w[l], z.out, z.in + 1, tail.rows);
  else
    gemm::multiply_tile<gemm::Narrow>(block, Matrix{z.dy, 0, z.out, 1, tail.rows, z.out},
                                      Matrix{z.w, 0, 1, z.in, z.in, z.out}, grads.x, tail.rows,
                                      z.in, z.out);
}

// ---- host code. y: outputs of the layers; dy: their gradients, empty in forward.

template <class T>
Tail<T> tail_of(const Tensor& x, const Tensors& w, const Tensors& b, const Tensors& y,
                const Tensors& dy) {
  const auto pointer = [](const Tensors& all, size_t i) {
    return i < all.size() && all[i].defined() ? all[i].ptr<T>() : nullptr;
  };
  Tail<T> tail{{}, int(w.size()), int(x.dim(0)), int(x.dim(1)), {}};
  for (size_t i = 0; i < w.size(); ++i) {
    const Tensor& in = i == 0 ? x : y[i - 1];
    tail.layers[i] = {in.ptr<T>(),      w[i].ptr<T>(),   pointer(b, i),
                      pointer(y, i),    pointer(dy, i),  int(w[i].dim(1)),
                      int(w[i].dim(0)), in.strides()[0], in.strides()[1]};
    tail.width = std::max(tail.width, int(w[i].dim(0)));
  }
  return tail;
}

// sums: per thread and row.
template <class T> Grid grid_for(const Tail<T>& tail, int sums) {
  return {unsigned(ceil_div(tail.rows, kRows)), kBlock,
          std::max(size_t(kRows * (2 * tail.width + sums * kBlock)) * sizeof(Acc<T>),
                   kWarps * sizeof(double))};
}

Tensors contiguous(const Tensors& all) {
  Tensors rows;
  for (const Tensor& t : all) rows.push_back(t.defined() ? bellows::contiguous(t) : t);
  return rows;
}

kernels::LinearTail forward(const Tensor& x, const Tensors& w_, const Tensors& b_,
                            const Tensor& target, double smoothing) {
  const Tensors w = contiguous(w_), b = contiguous(b_);
  const int64_t N = x.dim(0);
  kernels::LinearTail out;
  for (const Tensor& layer : w) out.y.push_back(empty({N, layer.dim(0)}, x));
  visit_stored(x.dtype(), [&]<class T>(T) {
    Tail<T> tail = tail_of<T>(x, w, b, out.y, {});
    Tensor parts;
    if (target.defined()) {
      out.lse = Tensor({N, 2}, dtype_of<Acc<T>>, x.device());
      out.loss = empty({}, out.lse);
      parts = Tensor({N}, DType::f64, x.device());
      tail.loss = {targets_of(target, w.back().dim(0), smoothing), out.lse.ptr<Acc<T>>(),
                   parts.ptr<double>(), out.loss.ptr<Acc<T>>(), nullptr};
    }
    launch(forward_rows<T>, grid_for(tail, 0), tail);
  });
  return out;
}

Tensor backward(const Tensor& dy_, const Tensor& x, const Tensors& w_, const Tensors& y,
                const Tensor& target, const Tensor& lse, double smoothing, const Tensors& dw,
                const Tensors& db, bool needs_dx) {
  const Tensors w = contiguous(w_);
  const Tensor dx = needs_dx ? empty(x.shape(), x) : Tensor();
  Tensors dy;
  for (const Tensor& t : y) dy.push_back(empty(t.shape(), t));
  if (!target.defined()) dy.push_back(dy_);
  visit_stored(x.dtype(), [&]<class T>(T) {
    Tail<T> tail = tail_of<T>(x, w, {}, y, dy);
    if (target.defined())
      tail.loss = {targets_of(target, w.back().dim(0), smoothing), lse.ptr<Acc<T>>(), nullptr,
                   nullptr, dy_.ptr<Acc<T>>()};
    launch(backward_rows<T>, grid_for(tail, 1), tail);
    TailGrads<T> grads{{}, {}, {needs_dx ? dx.ptr<T>() : nullptr, int(x.dim(1))}};
    int64_t blocks = needs_dx ? gemm::tiles<gemm::Narrow>({1, x.dim(0), x.dim(1), 0}) : 0;
    for (size_t i = 0; i < w.size(); ++i) {
      grads.w[i] = write_dw<T>(dw[i], db[i], int(w[i].dim(1)));
      if (!dw[i].defined() && !db[i].defined()) continue;
      grads.blocks_of_w[i] = int(gemm::tiles<gemm::Narrow>({1, w[i].dim(0), w[i].dim(1) + 1, 0}));
      blocks += grads.blocks_of_w[i];
    }
    launch(backward_products<T>,
           Grid{unsigned(blocks), kThreads, gemm::bytes_of_tiles<gemm::Narrow, Acc<T>>()}, tail,
           grads);
  });
  for (const Tensors* const all : {&dw, &db})
    for (const Tensor& t : *all)
      if (t.defined()) t.raise_version();
  return dx;
}

const bool gpu = kernels::linear_tail.on(Device::cuda, forward) &&
                 kernels::linear_tail_backward.on(Device::cuda, backward);

}  // namespace
}  // namespace bellows
