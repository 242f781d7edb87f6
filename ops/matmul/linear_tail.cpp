#include "ops/matmul/linear_tail.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "ops/base/work.h"
#include "ops/cross_entropy.h"
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

// Inputs in the precision of the products.
struct Operands {
  Operands(const Tensor& x_, Layers layers) : x(amp::low(x_)[0]), all{x} {
    for (const LinearTailLayer& l : layers) {
      w.push_back(amp::to_low(l.w)), b.push_back(amp::to_low(l.b));
      check_one_dtype("linear_tail", x, w.back(), b.back());
      all.insert(all.end(), {w.back(), b.back()});
    }
  }
  Tensor x;
  Tensors w, b, all;  // all: x, then w and b of each layer
};

// The loss of a tail; without one, no tensor is defined.
struct Loss {
  Saved target{Tensor()}, lse{Tensor()};
  double smoothing = 0;
};

struct Backward {
  // y: outputs of the hidden layers, and the logits if there is a loss.
  Backward(const Operands& in, const Tensors& y, const Loss& loss = {})
      : inputs(in.all.begin(), in.all.end()), y(y.begin(), y.end()), loss(loss) {
    for (const Tensor& t : in.all) wanted.push_back(needs_grad(t));
  }

  Grads operator()(const Tensor& dy) {
    const Tensor &x = inputs[0](), &lse = loss.lse();
    Tensors w, outputs, dw, db;
    for (const Saved& t : y) outputs.push_back(t());
    const auto out = [&](size_t i) { return wanted[i] ? grad_out(inputs[i]()) : Tensor(); };
    for (size_t i = 1; i < inputs.size(); i += 2) {
      w.push_back(inputs[i]());
      dw.push_back(out(i)), db.push_back(out(i + 1));
    }
    const Tensor d = lse.defined() ? cast(dy, lse.dtype()) : contiguous(kernels::flat_rows(dy));
    const Tensor dx =
        kernels::linear_tail_backward(d, kernels::flat_rows(x), w, outputs, loss.target(), lse,
                                      loss.smoothing, dw, db, wanted[0]);
    Grads grads{wanted[0] ? dx.view_as(x.shape()) : dx};
    for (size_t i = 0; i < w.size(); ++i) grads.insert(grads.end(), {dw[i], db[i]});
    return grads;
  }

  std::vector<Saved> inputs, y;
  Loss loss;
  std::vector<bool> wanted;  // for each input
};

}  // namespace

static Shape shape_of(const Tensor& x, Layers layers) {
  Shape shape = x.shape();
  shape[-1] = layers.back().w.dim(0);
  return shape;
}

Tensor linear_tail(const Tensor& x, std::span<const LinearTailLayer> layers, Impl impl) {
  check(x, layers);
  if (impl == Impl::composed || !runs_fused(x, layers)) return composed(x, layers);
  trace::count<"fuse.linear_tail">();
  const Operands in(x, layers);
  Tensors y = kernels::linear_tail(kernels::flat_rows(in.x), in.w, in.b, {}, 0).y;
  const Tensor last = y.back().view_as(shape_of(x, layers));
  if (!will_record(std::span<const Tensor>(in.all))) return last;
  y.pop_back();
  return record("linear_tail", last, in.all, Backward(in, y));
}

Tensor linear_tail_loss(const Tensor& x, std::span<const LinearTailLayer> layers,
                        const Tensor& target, const CrossEntropyOptions& options, Impl impl) {
  check(x, layers);
  if (impl == Impl::composed || !runs_fused(x, layers))
    return cross_entropy(linear_tail(x, layers, impl), target, options, impl);
  check_cross_entropy(shape_of(x, layers), target, options);
  trace::count<"fuse.linear_tail">();
  trace::count<"fuse.loss">();
  const Operands in(x, layers);
  const double smoothing = options.label_smoothing;
  const auto [y, lse, mean] = kernels::linear_tail(in.x, in.w, in.b, target, smoothing);
  // As amp::full would cast the logits: under amp, the loss of 16-bit logits is f32.
  const Tensor loss = cast(mean, autocast() == DType::f32 ? in.x.dtype() : mean.dtype());
  if (!will_record(std::span<const Tensor>(in.all))) return loss;
  return record("linear_tail_loss", loss, in.all,
                Backward(in, y, {Saved(target), Saved(lse), smoothing}));
}

// Hidden outputs are written once forward and read in backward, where their gradients are written
// and read; with a loss, so are the logits.
static OpWork work_of_tail(const RecordedOp& op) {
  OpWork work = single_pass(op);
  const Shape& x = op.inputs[0].shape;
  const double rows = double(x.numel() / x[-1]);
  const bool loss = op.y.rank() == 0;
  for (size_t i = 1; i < op.inputs.size(); i += 2) {
    const Shape& w = op.inputs[i].shape;
    const double flop = 2 * rows * double(w.numel());
    const double hidden = i + 2 < op.inputs.size() || loss ? rows * double(w[0]) : 0;
    work.forward += {flop, hidden * double(size_of(op.dtype()))};
    work.backward += {(op.inputs[i].grad ? flop : 0) + (i > 1 || op.inputs[0].grad ? flop : 0),
                      3 * hidden * double(size_of(op.dtype()))};
  }
  return work;
}
static const AddWork works[] = {{"linear_tail", work_of_tail}, {"linear_tail_loss", work_of_tail}};

// ---- specs: x, then w and b of each layer. For the loss, every third class is a label.

static std::vector<LinearTailLayer> layers_of(const Inputs& in) {
  std::vector<LinearTailLayer> layers;
  for (size_t i = 1; i + 1 < in.size(); i += 2) layers.push_back({in[i], in[i + 1]});
  return layers;
}
template <Impl impl> static Tensor run(const Inputs& in) {
  return linear_tail(in[0], layers_of(in), impl);
}
static Tensor run_loss(const Inputs& in, double smoothing, Impl impl) {
  std::vector<int64_t> labels(in[0].dim(0));
  for (size_t n = 0; n < labels.size(); ++n) labels[n] = int64_t(n) * 3 % in.back().dim(0);
  const Tensor target = tensor_of(labels, {in[0].dim(0)}, in[0].device());
  return linear_tail_loss(in[0], layers_of(in), target, {.label_smoothing = smoothing}, impl);
}

static const Shapes kThreeLayers = {{3, 5}, {4, 5}, {4}, {6, 4}, {6}, {2, 6}, {2}};
static const Shapes kLeNet = {{64, 400}, {120, 400}, {120}, {84, 120}, {84}, {10, 84}, {10}};

static const AddOp spec({.name = "linear_tail",
                         .math = "y = w3 max(w2 max(w1 x + b1, 0) + b2, 0) + b3",
                         .cases = {kThreeLayers, {{2, 3, 4}, {5, 4}, {5}, {3, 5}, {3}}},
                         .run = run<Impl::fused>,
                         .rejects = {{{3, 5}, {4, 4}, {4}, {6, 4}, {6}},
                                     {{3, 5}, {4, 5}, {4}, {6, 5}, {6}},
                                     {{3, 5}, {4, 5}, {4}, {6, 4}, {4}}},
                         .large = {kLeNet},
                         .composed = run<Impl::composed>,
                         .rounds_each_step = true,
                         .close_f32 = false});

static bool add_loss_spec(const char* variant, double smoothing) {
  AddOp({.name = "linear_tail_loss",
         .math = "-mean(log_softmax(w3 max(w2 max(w1 x + b1, 0) + b2, 0) + b3)[label])",
         .cases = {kThreeLayers, {{4, 3}, {5, 3}, {5}, {7, 5}, {7}}},
         .run = [=](const Inputs& in) { return run_loss(in, smoothing, Impl::fused); },
         .variant = variant,
         .large = {kLeNet},
         .composed = [=](const Inputs& in) { return run_loss(in, smoothing, Impl::composed); },
         .rounds_each_step = true,
         .close_f32 = false});
  return true;
}
static const bool loss_specs = add_loss_spec("", 0) && add_loss_spec("label smoothing", 0.1);

}  // namespace bellows
