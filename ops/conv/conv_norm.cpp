#include "ops/conv/conv_norm.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/base/op.h"
#include "ops/base/work.h"
#include "ops/elementwise.h"

namespace bellows {

// ---- the op

// Composed of conv2d, batch_norm and batch_norm_relu.
static Tensor composed(const Tensor& x, const Tensor& around, std::span<const ConvNormLayer> layers,
                       std::span<const ConvNormLayer> shortcut) {
  const auto conv = [](const ConvNormLayer& l, const Tensor& in) {
    return conv2d(in, l.w, {}, l.conv, l.slot);
  };
  Tensor residual = around, y = x;
  for (const ConvNormLayer& l : shortcut) residual = batch_norm(conv(l, around), l.norm);
  for (const ConvNormLayer& l : layers) {
    const bool last = &l == &layers.back();
    y = conv(l, y);
    if (last) residual = is_low(y.dtype()) ? amp::to_low(residual) : amp::full(residual);
    y = batch_norm_relu(y, last ? residual : Tensor(), l.norm);
  }
  return y;
}

namespace {

// A layer and the results of its forward.
struct Run {
  const ConvNormLayer& layer;
  Tensor w;              // in the precision it runs in
  Tensor y, statistics;  // of the convolution
  Slot slot;
  kernels::Normalization norm() const { return normalization(statistics, layer.norm); }
};
// The same for backward.
struct Stage {
  explicit Stage(const Run& r)
      : conv(r.layer.conv), w(r.w), norm(r.y, r.statistics, r.layer.norm), slot(r.slot) {}
  Conv2dOptions conv;
  Saved w;
  SavedNorm norm;
  Slot slot;
};

// Runs a layer on relu(norm(before->y)), or on x if no layer comes before it. Appends its
// parameters to `inputs`.
Run run(const ConvNormLayer& layer, const Tensor& x, const Run* before, Tensors& inputs) {
  const Tensor none, w = amp::to_low(layer.w);
  check_one_dtype("conv_norm", x, w, none);
  Slot slot = layer.slot ? *layer.slot : Slot();
  const kernels::Normalization n = before ? before->norm() : kernels::Normalization();
  const auto [y, statistics] = kernels::conv_norm(before ? before->y : x, n.statistics, n.weight,
                                                  n.bias, n.eps, w, layer.conv, slot);
  kernels::update_running(statistics, update_of(layer.norm, unbiased(y)));
  inputs.insert(inputs.end(), {w, layer.norm.weight, layer.norm.bias});
  return {layer, w, y, statistics, slot};
}

// Gradients of a stage's parameters.
struct StageGrads {
  explicit StageGrads(const Stage& s) : w(grad_out(s.w())), norm(s.norm) {}
  Tensor w;
  NormGrads norm;
};

// Backward through a convolution whose input x was not normalized.
Tensor through_conv(const Tensor& dy, Stage& stage, const Tensor& dw, const Tensor& x,
                    bool needs_dx) {
  kernels::conv2d_backward_w(dy, x, dw, {}, stage.conv, stage.slot);
  if (!needs_dx) return {};
  return kernels::conv2d_backward_x(dy, stage.w(), x.shape(), stage.conv, stage.slot);
}

struct Block {
  Saved x, around, bits;
  std::vector<Stage> layers, shortcut;
  bool needs_dx, needs_daround;

  Grads operator()(const Tensor& dy, const Tensor& more) {
    std::vector<StageGrads> grads(layers.begin(), layers.end());
    const size_t last = layers.size() - 1;
    auto [d, daround] = layers[last].norm.backward(dy, more, bits(), true, grads[last].norm);
    for (size_t i = last; i > 0; --i) {
      const SavedNorm& before = layers[i - 1].norm;
      const kernels::Normalization n = before.norm();
      d = kernels::conv_norm_backward(d, before.x(), n.statistics, n.weight, n.bias, n.eps,
                                      layers[i].w(), layers[i].conv, grads[i].w,
                                      grads[i - 1].norm.dw, grads[i - 1].norm.db, layers[i].slot);
    }
    const Tensor dx = through_conv(d, layers[0], grads[0].w, x(), needs_dx);
    for (Stage& stage : shortcut) {
      grads.emplace_back(stage);
      const Tensor ds = stage.norm.backward(daround, {}, {}, false, grads.back().norm).dx;
      daround = through_conv(ds, stage, grads.back().w, around(), needs_daround);
    }
    Grads all{dx, daround};
    for (size_t i = 0; i < grads.size(); ++i) {
      const auto& [w, norm] = grads[i];
      const SavedNorm& of = (i < layers.size() ? layers[i] : shortcut[0]).norm;
      all.insert(all.end(), {w, norm.of_weight(of), norm.of_bias(of)});
    }
    return all;
  }
};

}  // namespace

static void check(const Tensor& x, const Tensor& around, std::span<const ConvNormLayer> layers,
                  std::span<const ConvNormLayer> shortcut) {
  CHECK(!layers.empty() && shortcut.size() <= 1, "conv_norm: ", layers.size(), " layers and ",
        shortcut.size(),
        " in the shortcut; needs one layer or more, and at most one in the shortcut");
  Shape y = x.shape(), residual = around.shape();
  const auto step = [&](Shape& shape, const ConvNormLayer& l) {
    shape = conv2d_shape("conv_norm", shape, l.w.shape(), l.conv);
    check_norm("conv_norm", shape, l.norm);
    CHECK(l.norm.options.training == layers[0].norm.options.training,
          "conv_norm: some of its norms train, and some evaluate");
  };
  for (const ConvNormLayer& l : layers) step(y, l);
  for (const ConvNormLayer& l : shortcut) step(residual, l);
  CHECK(y == residual, "conv_norm: the output has shape ", y, ", the shortcut ", residual);
}

Tensor conv_norm(const Tensor& x_, const Tensor& around_, std::span<const ConvNormLayer> layers,
                 std::span<const ConvNormLayer> shortcut, Impl impl) {
  check(x_, around_, layers, shortcut);
  if (impl == Impl::composed || !layers.back().norm.options.training)
    return composed(x_, around_, layers, shortcut);
  trace::count<"fuse.conv_norm">();

  const auto [x, around] = amp::low(x_, around_);
  CHECK(x.dtype() == around.dtype(), "conv_norm: x is ", x.dtype(), " and around is ",
        around.dtype());
  Tensors inputs{x, around};
  std::vector<Run> runs, aside;
  for (const ConvNormLayer& l : layers)
    runs.push_back(run(l, x, runs.empty() ? nullptr : &runs.back(), inputs));
  Tensor residual = around;
  for (const ConvNormLayer& l : shortcut) {
    const Run& r = aside.emplace_back(run(l, around, nullptr, inputs));
    residual = kernels::batch_norm(r.y, r.norm(), {}, NormAct::none).y;
  }
  const Run& end = runs.back();
  const auto [y, bits] = kernels::batch_norm(end.y, end.norm(), residual, NormAct::relu);
  if (!will_record(std::span<const Tensor>(inputs))) return y;
  return record(
      "conv_norm", y, std::span<const Tensor>(inputs),
      Block{Saved(x), Saved(shortcut.empty() ? Tensor() : around), Saved(bits),
            std::vector<Stage>(runs.begin(), runs.end()),
            std::vector<Stage>(aside.begin(), aside.end()), needs_grad(x), needs_grad(around)});
}

// The shapes of a block do not show which of its layers has the stride.
static const AddWork work("conv_norm", [](const RecordedOp& op) -> OpWork {
  fail(Exit::usage, op.path,
       ": conv_norm cannot state its work; turn  toggles.fused_conv_norm  off");
});

// ---- kernels: the plain implementation on every device

namespace kernels {

ConvNorm conv_norm_in_steps(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                            const Tensor& bias, double eps, const Tensor& w,
                            const Conv2dOptions& options, Slot& slot) {
  const Tensor in = statistics.defined()
                        ? batch_norm(x, {statistics, weight, bias, eps}, {}, NormAct::relu).y
                        : x;
  const Tensor y = conv2d(in, w, {}, options, slot);
  return {y, channel_statistics(y, {})};
}

Tensor conv_norm_backward_in_steps(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                                   const Tensor& weight, const Tensor& bias, double eps,
                                   const Tensor& w, const Conv2dOptions& options, const Tensor& dw,
                                   const Tensor& dweight, const Tensor& dbias, Slot& slot) {
  const Normalization norm{statistics, weight, bias, eps};
  const auto [in, bits] = batch_norm(x, norm, {}, NormAct::relu);
  conv2d_backward_w(dy, in, dw, {}, options, slot);
  const Tensor din = conv2d_backward_x(dy, w, x.shape(), options, slot);
  return batch_norm_backward_in_steps(din, {}, x, norm, bits, false, dweight, dbias, slot).dx;
}

static const bool cpu = conv_norm.on(Device::cpu, conv_norm_in_steps) &&
                        conv_norm_backward.on(Device::cpu, conv_norm_backward_in_steps);

}  // namespace kernels

// ---- specs

// Inputs: x, then (w, weight, bias) of each layer, then those of the shortcut if there is one.
static OpFn run_with(const std::vector<Conv2dOptions>& convs, bool shortcut, Impl impl) {
  return [=](const Inputs& in) {
    std::vector<ConvNormLayer> layers;
    for (size_t i = 0; i < convs.size(); ++i) {
      const Tensor &weight = in[3 * i + 2], &bias = in[3 * i + 3];
      const auto running = [&](double value) {
        return full(weight.shape(), value, precise(in[0].dtype()), in[0].device());
      };
      layers.push_back({in[3 * i + 1], convs[i], {weight, bias, {running(0.25), running(2)}}});
    }
    const std::span all(layers);
    const size_t n = layers.size() - shortcut;
    return conv_norm(in[0], in[0], all.first(n), all.subspan(n), impl);
  };
}
static AddOp spec(const char* variant, const std::vector<Conv2dOptions>& convs, bool shortcut,
                  std::vector<Shapes> cases, std::vector<Shapes> rejects,
                  std::vector<Shapes> large) {
  return AddOp({.name = "conv_norm",
                .math = "y = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))",
                .cases = std::move(cases),
                .run = run_with(convs, shortcut, Impl::fused),
                .rejects = std::move(rejects),
                .variant = variant,
                .large = std::move(large),
                .composed = run_with(convs, shortcut, Impl::composed),
                .rounds_each_step = true,
                .close_f32 = false});
}
static constexpr Conv2dOptions k1x1{}, k3x3{.padding = 1}, kHalf{.stride = 2, .padding = 1},
    kHalf1x1{.stride = 2};
static const AddOp specs[] = {
    spec("", {k3x3, k3x3}, false, {{{3, 4, 5, 4}, {6, 4, 3, 3}, {6}, {6}, {4, 6, 3, 3}, {4}, {4}}},
         {{{3, 4, 5, 4}, {6, 3, 3, 3}, {6}, {6}, {4, 6, 3, 3}, {4}, {4}},
          {{3, 4, 5, 4}, {6, 4, 3, 3}, {5}, {6}, {4, 6, 3, 3}, {4}, {4}},
          {{3, 4, 5, 4}, {6, 4, 3, 3}, {6}, {6}, {5, 6, 3, 3}, {5}, {5}}},
         {{{5, 16, 9, 8}, {24, 16, 3, 3}, {24}, {24}, {16, 24, 3, 3}, {16}, {16}}}),
    spec("shortcut", {kHalf, k3x3, kHalf1x1}, true,
         {{{3, 3, 6, 5}, {4, 3, 3, 3}, {4}, {4}, {5, 4, 3, 3}, {5}, {5}, {5, 3, 1, 1}, {5}, {5}}},
         {}, {}),
    spec("bottleneck", {k1x1, kHalf, k1x1, kHalf1x1}, true,
         {{{3, 8, 6, 4},
           {8, 8, 1, 1},
           {8},
           {8},
           {8, 8, 3, 3},
           {8},
           {8},
           {16, 8, 1, 1},
           {16},
           {16},
           {16, 8, 1, 1},
           {16},
           {16}}},
         {}, {}),
};

}  // namespace bellows
