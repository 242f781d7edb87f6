#include "core/tensor/copy.h"
#include "ops/base/functors.h"
#include "ops/matmul/linear.cuh"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.cuh"
#include "ops/reduce.h"

namespace bellows {

static Tensor linear_cuda(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                          Slot&) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  using kernels::batched;
  matmul_cuda(batched(y, 1), batched(x, 1), batched(transposed(w), 1), Into::overwrite,
              {b, activation == Activation::relu});
  return y;
}

static void sum_rows_cuda(const Tensor& dy, const Tensor& db) {
  copy_into(db, kernels::sum(dy, {1, dy.dim(1)}, 1).view_as(db.shape()));
}

// ---- backward of small layers, whose launches would take longer than their products

namespace {

// dy, or its transpose, times the slope of relu at y; y is null without.
template <class T> struct Masked : gemm::Matrix<T> {
  using typename gemm::Matrix<T>::Value;
  const T* y;
  __device__ Value value(int64_t lane, int64_t depth) const {
    const Value dy = gemm::Matrix<T>::value(lane, depth);
    if (!y || lane < 0 || depth < 0) return dy;
    return dy * functors::Relu::slope(Value(y[lane + depth]));
  }
};

// Both products in one launch: the first blocks have the tiles of dw and db, the others those of
// dx. Blocks and shared memory as in gemm::multiply.
template <class T>
__global__ void backward_both(int blocks_of_w, Masked<T> dy_of_out, WithOnes<T> x, WriteDw<T> dw,
                              Masked<T> dy_of_rows, gemm::Matrix<T> w, WriteDx<T> dx) {
  const int block = int(blockIdx.x), rows = dy_of_rows.lanes, out = dy_of_out.lanes, in = dx.in;
  if (block < blocks_of_w)
    gemm::multiply_tile<gemm::Narrow>(block, dy_of_out, x, dw, out, in + 1, rows);
  else
    gemm::multiply_tile<gemm::Narrow>(block - blocks_of_w, dy_of_rows, w, dx, rows, in, out);
}

}  // namespace

static bool is_small(const Tensor& dy, const Tensor& w) {
  // About 3 us of an H200 at a tenth of its peak (estimate).
  constexpr int64_t kSmall = 8 << 20;
  const int64_t products = dy.dim(0) * w.numel();
  return products > 0 && products <= kSmall;
}

static Tensor backward_cuda(const Tensor& dy, const Tensor& y, const Tensor& x, const Tensor& w,
                            const Tensor& dw, const Tensor& db, bool needs_dx, Slot& slot) {
  const int64_t rows = dy.dim(0), out = w.dim(0), in = w.dim(1);
  const bool both = needs_dx && (dw.defined() || db.defined());
  if (!both || !is_small(dy, w))
    return kernels::linear_backward_in_steps(dy, y, x, w, dw, db, needs_dx, slot);
  const Tensor dx = empty({rows, in}, dy);
  const int n = int(rows), o = int(out), i = int(in);
  const int64_t of_w = gemm::tiles<gemm::Narrow>({1, out, in + 1, 0}),
                of_x = gemm::tiles<gemm::Narrow>({1, rows, in, 0});
  visit_stored(dy.dtype(), [&]<class T>(T) {
    const auto pointer = [](const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; };
    const T *const dy_ = dy.ptr<T>(), *const y_ = pointer(y);
    launch(backward_both<T>,
           Grid{unsigned(of_w + of_x), kThreads, gemm::bytes_of_tiles<gemm::Narrow, Acc<T>>()},
           int(of_w), Masked<T>{{dy_, 0, 1, out, o, n}, y_},
           WithOnes<T>{{x.ptr<T>(), 0, x.strides()[1], x.strides()[0], i, n}},
           write_dw<T>(dw, db, i), Masked<T>{{dy_, 0, out, 1, n, o}, y_},
           gemm::Matrix<T>{w.ptr<T>(), 0, w.strides()[1], w.strides()[0], i, o},
           WriteDx<T>{dx.ptr<T>(), i});
  });
  for (const Tensor& t : {dw, db})
    if (t.defined()) t.raise_version();
  return dx;
}

static bool fits_in_one_launch(const Tensor& dy, const Tensor&, const Tensor&, const Tensor& w,
                               const Tensor&, const Tensor&, bool needs_dx, Slot&) {
  return needs_dx && is_small(dy, w);
}

static const bool gpu =
    kernels::linear.on(Device::cuda, linear_cuda) &&
    kernels::linear_backward.on(Device::cuda, backward_cuda) &&
    kernels::linear_backward.algorithm_on(Device::cuda, "in_steps", fits_in_one_launch,
                                          kernels::linear_backward_in_steps) &&
    kernels::linear_backward_w.on(Device::cuda, kernels::multiply_and_sum_rows) &&
    kernels::sum_rows.on(Device::cuda, sum_rows_cuda);

}  // namespace bellows
