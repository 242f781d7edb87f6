#include "ops/matmul/linear.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/device/parallel.h"
#include "core/tensor/copy.h"
#include "core/tensor/in_f32.h"
#include "ops/base/map.h"
#include "ops/base/work.h"
#include "ops/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/padded.h"

namespace bellows {

// ---- the op

static Shape linear_shape(const char* op, const Tensor& x_, const Tensor& w_, const Tensor& b) {
  const Shape &x = x_.shape(), &w = w_.shape();
  CHECK(x.rank() >= 1 && w.rank() == 2 && x[-1] == w[1], op, ": x ", x, " needs w of shape [out,",
        x.rank() ? x[-1] : 0, "], got ", w);
  CHECK(!b.defined() || b.shape() == Shape{w[0]}, op, ": w ", w, " needs b of shape ", Shape{w[0]},
        ", got ", b.shape());
  check_one_dtype(op, x_, w_, b);
  Shape y = x;
  y[-1] = w[0];
  return y;
}

// Returns dx, undefined unless needs_dx, and writes dw and db, which may be undefined. y: the
// output of relu, or undefined without one.
static Tensor backward(const Tensor& dy_, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& dw, const Tensor& db, bool needs_dx, Slot& slot) {
  const Tensor dy = y.defined() ? kernels::unary_backward<functors::Relu>(dy_, y) : dy_;
  const auto dy_by = [&](const Tensor& dy, const Tensor& w) {
    return kernels::product(dy, w, &slot);
  };
  const Tensor dx = needs_dx ? padded::backward_x(dy_by, dy, w) : Tensor();
  if (dw.defined() || db.defined())
    padded::backward_w(kernels::linear_backward_w, dy, x, dw, db, slot);
  return dx;
}

static Tensor layer(const char* op, const Tensor& x_, const Tensor& w_, const Tensor& b_,
                    Activation activation, Slot* slot) {
  const auto [x, w, b] = amp::low(x_, w_, b_);
  const Shape shape = linear_shape(op, x, w, b);
  Slot cache = slot ? *slot : Slot();
  const Tensor y = padded::forward(kernels::linear, kernels::flat_rows(x), w, b, activation, cache)
                       .view_as(shape);
  if (!will_record(x, w, b)) return y;
  return record(
      op, y, {x, w, b},
      [x = Saved(x), w = Saved(w), b = Saved(b),
       y = Saved(activation == Activation::relu ? y : Tensor()), cache, needs_dx = needs_grad(x),
       needs_dw = needs_grad(w), needs_db = needs_grad(b)](const Tensor& dy) mutable {
        Grads grads(3);
        if (needs_dw) grads[1] = grad_out(w());
        if (needs_db) grads[2] = grad_out(b());
        const auto rows = [](const Tensor& t) { return t.defined() ? kernels::flat_rows(t) : t; };
        const auto write = [&](const Tensor& dw) {
          grads[0] = backward(contiguous(rows(dy)), rows(y()), rows(x()), w(), dw, grads[2],
                              needs_dx, cache);
        };
        needs_dw ? write_in(kNCHW, grads[1], write) : write({});
        if (needs_dx) grads[0] = grads[0].view_as(x().shape());
        return grads;
      });
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Slot* slot) {
  return layer("linear", x, w, b, Activation::none, slot);
}

Tensor linear_relu(const Tensor& x, const Tensor& w, const Tensor& b, Impl impl, Slot* slot) {
  if (impl == Impl::composed) return relu(linear(x, w, b, slot));
  trace::count<"fuse.bias_act">();
  return layer("linear_relu", x, w, b, Activation::relu, slot);
}

static OpWork product_of(const RecordedOp& op) {
  return product(op, 2.0 * double(op.y.numel()) * double(op.inputs.at(1).shape[1]));
}
static const AddWork work("linear", product_of);
static const AddWork relu_work("linear_relu", [](const RecordedOp& op) {
  OpWork work = product_of(op);
  work.backward.bytes += 3 * result_bytes(op);  // dy and y are read, the masked dy is written
  return work;
});

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

template <Impl impl> static Tensor run_relu(const Inputs& in) {
  return linear_relu(in[0], in[1], in[2], impl);
}
static const AddOp relu_spec({.name = "linear_relu",
                              .math = "y = max(x w^T + b, 0)",
                              .cases = {{{3, 5}, {4, 5}, {4}}, {{2, 3, 4}, {5, 4}, {5}}},
                              .run = run_relu<Impl::fused>,
                              .rejects = {{{3, 5}, {5, 4}, {4}}, {{3, 5}, {4, 5}, {5}}},
                              .large = {{{64, 400}, {120, 400}, {120}}},
                              .composed = run_relu<Impl::composed>,
                              .close_f32 = false});

// ---- CPU

static Tensor product_cpu(const Tensor& x, const Tensor& w, const Tensor& b, Slot& slot) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, x);
  if (!b.defined()) {
    kernels::multiply(y, x, transposed(w), Into::overwrite, &slot);
    return y;
  }
  const Tensor bias = contiguous(b);
  visit_stored(x.dtype(), [&]<class T>(T) {
    const T* const b_ = bias.ptr<T>();
    const int64_t C = y.dim(1);
    parallel_for(y.dim(0), ceil_div(kMapChunk, std::max<int64_t>(C, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t n = begin; n < end; ++n) std::copy_n(b_, C, y.ptr<T>() + n * C);
                 });
  });
  kernels::multiply(y, x, transposed(w), Into::add, &slot);
  return y;
}

static Tensor linear_cpu(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation,
                         Slot& slot) {
  const Tensor y = product_cpu(x, w, b, slot);
  return activation == Activation::relu ? kernels::unary<functors::Relu>(y) : y;
}

void kernels::multiply_and_sum_rows(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                    const Tensor& db, Slot& slot) {
  if (dw.defined()) multiply(dw, transposed(dy), x, Into::overwrite, &slot);
  if (db.defined()) sum_rows(dy, db);
}

static void sum_rows_cpu(const Tensor& dy, const Tensor& db) {
  const int64_t N = dy.dim(0), C = dy.dim(1);
  visit_float(dy.dtype(), [&]<class T>(T) {
    const T* const dy_ = dy.ptr<T>();
    T* const db_ = db.ptr<T>();
    const int64_t chunk = std::max<int64_t>(64, kMapChunk / std::max<int64_t>(N, 1));
    parallel_for(C, chunk, [&](int64_t begin, int64_t end) {
      std::fill(db_ + begin, db_ + end, T(0));
      for (int64_t n = 0; n < N; ++n)
        for (int64_t c = begin; c < end; ++c) db_[c] += dy_[n * C + c];
    });
  });
  db.raise_version();
}

static const bool cpu =
    kernels::linear.on(Device::cpu, linear_cpu) &&
    kernels::linear_backward_w.on(Device::cpu, kernels::multiply_and_sum_rows) &&
    kernels::sum_rows.on(Device::cpu, in_f32<sum_rows_cpu>);

}  // namespace bellows
