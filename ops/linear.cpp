#include "ops/linear.h"
#include "autograd/backward.h"
#include "core/copy.h"
#include "core/parallel.h"
#include "ops/matmul.h"
#include "ops/op.h"

namespace bellows {

// ---- the op

// (.., C) seen as (rows, C).
static Tensor as_rows(const Tensor& t) {
  if (t.rank() == 2) return t.detach();
  return contiguous(t.detach()).view_as({t.numel() / std::max<int64_t>(t.dim(-1), 1), t.dim(-1)});
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  CHECK(x.rank() >= 1 && w.rank() == 2 && x.dim(-1) == w.dim(1), "linear: x ", x.shape(),
        " needs w of shape [out,", x.rank() ? x.dim(-1) : 0, "], got ", w.shape());
  CHECK(!b.defined() || b.shape() == Shape{w.dim(0)}, "linear: w ", w.shape(), " needs b of shape ",
        Shape{w.dim(0)}, ", got ", b.shape());
  Shape shape = x.shape();
  shape[-1] = w.dim(0);
  const Tensor y = kernels::linear(as_rows(x), w, b).view_as(shape);
  if (!will_record(x, w, b)) return y;
  return record("linear", y, {x, w, b},
                [x = Saved(x), w = Saved(w), b = Saved(b), needs_dx = needs_grad(x),
                 needs_dw = needs_grad(w), needs_db = needs_grad(b)](const Tensor& dy_) {
                  const Tensor dy = contiguous(as_rows(dy_));
                  Grads grads(3);
                  if (needs_dx) {
                    grads[0] = kernels::product(dy, w());
                    if (x().rank() != 2) grads[0] = grads[0].view_as(x().shape());
                  }
                  if (needs_dw) {
                    grads[1] = grad_out(w());
                    kernels::multiply(grads[1], transposed(dy), as_rows(x()));
                  }
                  if (needs_db) {
                    grads[2] = grad_out(b());
                    kernels::sum_rows(dy, grads[2]);
                  }
                  return grads;
                });
}

static const AddOp spec({.name = "linear",
                         .math = "y = x w^T + b",
                         .cases = {{{3, 5}, {4, 5}, {4}}, {{2, 3, 4}, {5, 4}, {5}}},
                         .run = [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                         .rejects = {{{3, 5}, {5, 4}, {4}}, {{3, 5}, {4, 5}, {5}}},
                         .large = {{{64, 400}, {120, 400}, {120}}, {{1, 400}, {120, 400}, {120}}},
                         .close_f32 = false});
static const AddOp spec_without_bias(
    {.name = "linear",
     .math = "y = x w^T",
     .cases = {{{3, 5}, {4, 5}}},
     .run = [](const Inputs& in) { return linear(in[0], in[1], Tensor()); },
     .variant = "without bias"});

// ---- CPU

static Tensor linear_cpu(const Tensor& x, const Tensor& w, const Tensor& b) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  if (!b.defined()) {
    kernels::multiply(y, x, transposed(w));
    return y;
  }
  const Tensor bias = contiguous(b);
  visit_float(x.dtype(), [&]<class T>(T) {
    const std::span<const T> b_ = bias.data<T>();
    for (int64_t n = 0; n < y.dim(0); ++n)
      std::ranges::copy(b_, y.ptr<T>() + n * int64_t(b_.size()));
  });
  kernels::multiply(y, x, transposed(w), Into::add);
  return y;
}

static void sum_rows_cpu(const Tensor& dy, const Tensor& db) {
  const int64_t N = dy.dim(0), C = dy.dim(1);
  visit_float(dy.dtype(), [&]<class T>(T) {
    const T* const dy_ = dy.ptr<T>();
    T* const db_ = db.ptr<T>();
    parallel_for(C, 512, [&](int64_t begin, int64_t end) {
      std::fill(db_ + begin, db_ + end, T(0));
      for (int64_t n = 0; n < N; ++n)
        for (int64_t c = begin; c < end; ++c) db_[c] += dy_[n * C + c];
    });
  });
  db.raise_version();
}

static const bool cpu =
    kernels::linear.on(Device::cpu, linear_cpu) && kernels::sum_rows.on(Device::cpu, sum_rows_cpu);

}  // namespace bellows
