#include "ops/matmul/linear_tail.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/work.h"
#include "ops/elementwise.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"

namespace bellows {

using Layers = std::span<const LinearTailLayer>;

static Tensor composed(const Tensor& x, Layers layers) {
  Tensor y = x;
  for (const LinearTailLayer& l : layers) {
    y = linear(y, l.w, l.b, l.slot);
    if (&l != &layers.back()) y = relu(y);
  }
  return y;
}

static void check(const Tensor& x, Layers layers) {
  CHECK(!layers.empty() && x.rank() >= 1, "linear_tail: x ", x.shape(), " with ", layers.size(),
        " layers; it needs an axis and a layer");
  int64_t in = x.dim(-1);
  for (const auto& [w, b, slot] : layers) {
    CHECK(w.rank() == 2 && w.dim(1) == in, "linear_tail: needs w of shape [out,", in, "], got ",
          w.shape());
    CHECK(!b.defined() || b.shape() == Shape{w.dim(0)}, "linear_tail: w ", w.shape(),
          " needs b of shape ", Shape{w.dim(0)}, ", got ", b.shape());
    in = w.dim(0);
  }
}

// Each block of the kernels reads all weights, which pays only while launches take longer than the
// products.
static bool runs_fused(const Tensor& x, Layers layers) {
  constexpr int64_t kSmall = 8 << 20;  // as for linear's backward
  if (x.device() != Device::cuda || layers.size() < 2 || x.numel() == 0 ||
      layers.size() > kernels::kMostTailLayers)
    return false;
  int64_t widest = x.dim(-1), weights = 0;
  for (const LinearTailLayer& l : layers) {
    widest = std::max(widest, l.w.dim(0));
    weights += l.w.numel();
    if (l.w.numel() == 0) return false;
  }
  return widest <= kernels::kMostTailFeatures && x.numel() / x.dim(-1) * weights <= kSmall;
}

namespace {
struct Backward {
  Saved x;
  std::vector<Saved> w, b, h;
  bool dx;
  std::vector<bool> dw, db;

  Grads operator()(const Tensor& dy) {
    Tensors weights, outputs, dw_(w.size()), db_(w.size());
    for (const Saved& t : h) outputs.push_back(t());
    for (size_t i = 0; i < w.size(); ++i) {
      weights.push_back(w[i]());
      if (dw[i]) dw_[i] = grad_out(w[i]());
      if (db[i]) db_[i] = grad_out(b[i]());
    }
    Grads grads{kernels::linear_tail_backward(contiguous(kernels::flat_rows(dy)),
                                              kernels::flat_rows(x()), weights, outputs, dw_, db_,
                                              dx)};
    if (dx) grads[0] = grads[0].view_as(x().shape());
    for (size_t i = 0; i < w.size(); ++i) grads.insert(grads.end(), {dw_[i], db_[i]});
    return grads;
  }
};
}  // namespace

Tensor linear_tail(const Tensor& x_, std::span<const LinearTailLayer> layers, Impl impl) {
  check(x_, layers);
  if (impl == Impl::composed || !runs_fused(x_, layers)) return composed(x_, layers);
  static trace::Counter& fused = trace::counter("fuse.linear_tail");
  fused.add();
  const auto [x] = amp::low(x_);
  Tensors inputs{x}, w, b;
  for (const LinearTailLayer& l : layers) {
    w.push_back(amp::to_low(l.w)), b.push_back(amp::to_low(l.b));
    check_one_dtype("linear_tail", x, w.back(), b.back());
    inputs.insert(inputs.end(), {w.back(), b.back()});
  }
  Tensors y = kernels::linear_tail(kernels::flat_rows(x), w, b);
  Shape shape = x.shape();
  shape[-1] = y.back().dim(1);
  const Tensor last = y.back().view_as(shape);
  if (!will_record(std::span<const Tensor>(inputs))) return last;
  y.pop_back();
  const auto saved = [](const Tensors& all) { return std::vector<Saved>(all.begin(), all.end()); };
  const auto needed = [](const Tensors& all) {
    std::vector<bool> needs;
    for (const Tensor& t : all) needs.push_back(needs_grad(t));
    return needs;
  };
  return record(
      "linear_tail", last, inputs,
      Backward{Saved(x), saved(w), saved(b), saved(y), needs_grad(x), needed(w), needed(b)});
}

// Hidden outputs are written once forward and read in backward, where their gradients are written
// and read.
static const AddWork work("linear_tail", [](const RecordedOp& op) {
  OpWork work = single_pass(op);
  const double rows = double(op.y.numel() / op.y[-1]);
  for (size_t i = 1; i < op.inputs.size(); i += 2) {
    const Shape& w = op.inputs[i].shape;
    const double flop = 2 * rows * double(w.numel());
    const double hidden = i + 2 < op.inputs.size() ? rows * double(w[0]) : 0;
    work.forward += {flop, hidden * double(size_of(op.dtype()))};
    work.backward += {(op.inputs[i].grad ? flop : 0) + (i > 1 || op.inputs[0].grad ? flop : 0),
                      3 * hidden * double(size_of(op.dtype()))};
  }
  return work;
});

// ---- specs: x, then w and b of each layer

template <Impl impl> static Tensor run(const Inputs& in) {
  std::vector<LinearTailLayer> layers;
  for (size_t i = 1; i + 1 < in.size(); i += 2) layers.push_back({in[i], in[i + 1]});
  return linear_tail(in[0], layers, impl);
}
static const AddOp spec({.name = "linear_tail",
                         .math = "y = w3 max(w2 max(w1 x + b1, 0) + b2, 0) + b3",
                         .cases = {{{3, 5}, {4, 5}, {4}, {6, 4}, {6}, {2, 6}, {2}},
                                   {{2, 3, 4}, {5, 4}, {5}, {3, 5}, {3}}},
                         .run = run<Impl::fused>,
                         .rejects = {{{3, 5}, {4, 4}, {4}, {6, 4}, {6}},
                                     {{3, 5}, {4, 5}, {4}, {6, 5}, {6}},
                                     {{3, 5}, {4, 5}, {4}, {6, 4}, {4}}},
                         .large = {{{64, 400}, {120, 400}, {120}, {84, 120}, {84}, {10, 84}, {10}}},
                         .composed = run<Impl::composed>,
                         .rounds_each_step = true,
                         .close_f32 = false});

}  // namespace bellows
