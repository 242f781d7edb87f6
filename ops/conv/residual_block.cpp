#include "ops/conv/residual_block.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/conv/norm_conv2d.h"
#include "ops/elementwise.h"

namespace bellows {

// ---- the op

// Composed of conv2d, batch_norm and batch_norm_relu.
static Tensor composed(const Tensor& x, const Tensor& around, std::span<const ConvNorm> layers,
                       std::span<const ConvNorm> shortcut) {
  const auto conv = [](const ConvNorm& l, const Tensor& in) {
    return conv2d(in, l.w, {}, l.conv, l.slot);
  };
  Tensor residual = around, y = x;
  for (const ConvNorm& l : shortcut)
    residual = batch_norm(conv(l, around), l.weight, l.bias, l.running, l.norm);
  for (const ConvNorm& l : layers) {
    const bool last = &l == &layers.back();
    y = conv(l, y);
    if (last) residual = is_low(y.dtype()) ? amp::to_low(residual) : amp::full(residual);
    y = batch_norm_relu(y, last ? residual : Tensor(), l.weight, l.bias, l.running, l.norm);
  }
  return y;
}

namespace {

// A layer in the precision it runs in, and the results of its forward.
struct Stage {
  Stage(const ConvNorm& layer, const Tensor& x)
      : conv(layer.conv),
        norm(layer.norm),
        w(amp::to_low(layer.w)),
        weight(layer.weight),
        bias(layer.bias),
        scale(contiguous(cast(layer.weight, precise(x.dtype())))),
        shift(contiguous(cast(layer.bias, precise(x.dtype())))),
        slot(layer.slot ? *layer.slot : Slot()) {
    check_one_dtype("residual_block", x, w, {});
  }

  // Runs the layer on relu(norm(before->y)), or on x if no stage comes before it.
  void run(const ConvNorm& layer, const Tensor& x, const Stage* before) {
    const Tensor none;
    auto made = before ? kernels::norm_conv2d(before->y, before->statistics, before->scale,
                                              before->shift, before->norm.eps, w, conv, slot)
                       : kernels::norm_conv2d(x, none, none, none, 0, w, conv, slot);
    y = made.y, statistics = made.statistics;
    update_running(layer.running, y, statistics, layer.norm);
  }

  Conv2dOptions conv;
  BatchNormOptions norm;
  Tensor w, weight, bias, scale, shift, y, statistics;
  Slot slot;
};

// The part of a stage that backward needs.
struct Kept {
  explicit Kept(const Stage& s)
      : conv(s.conv),
        eps(s.norm.eps),
        w(s.w),
        weight(s.weight),
        bias(s.bias),
        y(s.y),
        statistics(s.statistics),
        slot(s.slot) {}

  Tensor scale() const { return contiguous(cast(weight(), statistics().dtype())); }
  Tensor shift() const { return contiguous(cast(bias(), statistics().dtype())); }

  Conv2dOptions conv;
  double eps;
  Saved w, weight, bias, y, statistics;
  Slot slot;
};

// Gradients of a stage's parameters; dweight and dbias in the precision of the statistics.
struct StageGrads {
  explicit StageGrads(const Kept& kept)
      : dw(grad_out(kept.w())),
        dweight(cast(grad_out(kept.weight()), kept.statistics().dtype())),
        dbias(cast(grad_out(kept.bias()), kept.statistics().dtype())) {}
  Tensor dw, dweight, dbias;
};

// Backward through the norm of one stage.
kernels::NormalizedGrads through_norm(const Tensor& dy, const Kept& stage, const StageGrads& grads,
                                      const Tensor& bits, bool residual) {
  kernels::batch_norm_backward_w(dy, stage.y(), stage.statistics(), bits, stage.eps, grads.dweight,
                                 grads.dbias);
  return kernels::batch_norm_backward_x(dy, stage.y(), stage.statistics(), stage.scale(),
                                        grads.dweight, grads.dbias, bits, stage.eps, residual);
}
// Backward through a convolution whose input x was not normalized.
Tensor through_conv(const Tensor& dy, Kept& stage, const StageGrads& grads, const Tensor& x,
                    bool needs_dx) {
  kernels::conv2d_backward_w(dy, x, grads.dw, {}, stage.conv, stage.slot);
  if (!needs_dx) return {};
  return kernels::conv2d_backward_x(dy, stage.w(), x.shape(), stage.conv, stage.slot);
}

struct Block {
  Saved x, around, bits;
  std::vector<Kept> layers, shortcut;
  bool needs_dx, needs_daround;

  Grads operator()(const Tensor& dy) {
    std::vector<StageGrads> grads(layers.begin(), layers.end());
    const size_t last = layers.size() - 1;
    auto [d, daround] = through_norm(dy, layers[last], grads[last], bits(), true);
    for (size_t i = last; i > 0; --i) {
      const Kept& in = layers[i - 1];
      d = kernels::norm_conv2d_backward(d, in.y(), in.statistics(), in.scale(), in.shift(), in.eps,
                                        layers[i].w(), layers[i].conv, grads[i].dw,
                                        grads[i - 1].dweight, grads[i - 1].dbias, layers[i].slot);
    }
    const Tensor dx = through_conv(d, layers[0], grads[0], x(), needs_dx);
    for (Kept& stage : shortcut) {
      grads.emplace_back(stage);
      const Tensor ds = through_norm(daround, stage, grads.back(), {}, false).dx;
      daround = through_conv(ds, stage, grads.back(), around(), needs_daround);
    }
    Grads all{dx, daround};
    for (size_t i = 0; i < grads.size(); ++i) {
      const Kept& stage = i < layers.size() ? layers[i] : shortcut[0];
      all.insert(all.end(), {grads[i].dw, cast(grads[i].dweight, stage.weight().dtype()),
                             cast(grads[i].dbias, stage.bias().dtype())});
    }
    return all;
  }
};

}  // namespace

static void check(const Tensor& x, const Tensor& around, std::span<const ConvNorm> layers,
                  std::span<const ConvNorm> shortcut) {
  CHECK(!layers.empty() && shortcut.size() <= 1, "residual_block: ", layers.size(), " layers and ",
        shortcut.size(), " in the shortcut; one or more, and at most one, make a block");
  Shape y = x.shape(), residual = around.shape();
  const auto step = [&](Shape& shape, const ConvNorm& l) {
    shape = conv2d_shape("residual_block", shape, l.w.shape(), l.conv);
    check_norm("residual_block", shape, l.weight, l.bias, l.running, l.norm);
    CHECK(l.norm.training == layers[0].norm.training,
          "residual_block: some of its norms train, and some evaluate");
  };
  for (const ConvNorm& l : layers) step(y, l);
  for (const ConvNorm& l : shortcut) step(residual, l);
  CHECK(y == residual, "residual_block: the layers give ", y, ", the shortcut ", residual);
}

Tensor residual_block(const Tensor& x_, const Tensor& around_, std::span<const ConvNorm> layers,
                      std::span<const ConvNorm> shortcut, Impl impl) {
  check(x_, around_, layers, shortcut);
  if (impl == Impl::composed || !layers.back().norm.training)
    return composed(x_, around_, layers, shortcut);
  static trace::Counter& fused = trace::counter("fuse.conv_norm");
  fused.add();

  const auto [x, around] = amp::low(x_, around_);
  CHECK(x.dtype() == around.dtype(), "residual_block: x is ", x.dtype(), " and around is ",
        around.dtype());
  std::vector<Stage> stages, aside;
  for (const ConvNorm& l : layers) {
    stages.emplace_back(l, x);
    stages.back().run(l, x, stages.size() > 1 ? &stages[stages.size() - 2] : nullptr);
  }
  Tensor residual = around;
  for (const ConvNorm& l : shortcut) {
    Stage& s = aside.emplace_back(l, around);
    s.run(l, around, nullptr);
    residual = kernels::batch_norm(s.y, s.statistics, s.scale, s.shift, {}, false, s.norm.eps).y;
  }
  const Stage& end = stages.back();
  const auto [y, bits] = kernels::batch_norm(end.y, end.statistics, end.scale, end.shift, residual,
                                             true, end.norm.eps);
  Tensors inputs{x, around};
  for (const std::vector<Stage>* list : {&stages, &aside})
    for (const Stage& s : *list) inputs.insert(inputs.end(), {s.w, s.weight, s.bias});
  if (!will_record(std::span<const Tensor>(inputs))) return y;
  const auto kept = [](const std::vector<Stage>& list) {
    return std::vector<Kept>(list.begin(), list.end());
  };
  return record("residual_block", y, std::span<const Tensor>(inputs),
                Block{Saved(x), Saved(shortcut.empty() ? Tensor() : around), Saved(bits),
                      kept(stages), kept(aside), needs_grad(x), needs_grad(around)});
}

// ---- specs

// Inputs: x, then (w, weight, bias) of each layer, then those of the shortcut if there is one.
static OpFn run_with(std::vector<Conv2dOptions> convs, bool shortcut, Impl impl) {
  return [=](const Inputs& in) {
    std::vector<ConvNorm> layers;
    for (size_t i = 0; i < convs.size(); ++i) {
      const Tensor &weight = in[3 * i + 2], &bias = in[3 * i + 3];
      const auto running = [&](double value) {
        return full(weight.shape(), value, precise(in[0].dtype()), in[0].device());
      };
      layers.push_back({in[3 * i + 1], convs[i], weight, bias, {running(0.25), running(2)}, {}});
    }
    const std::span all(layers);
    const size_t n = layers.size() - shortcut;
    return residual_block(in[0], in[0], all.first(n), all.subspan(n), impl);
  };
}
static AddOp spec(const char* variant, const std::vector<Conv2dOptions>& convs, bool shortcut,
                  std::vector<Shapes> cases, std::vector<Shapes> rejects,
                  std::vector<Shapes> large) {
  return AddOp({.name = "residual_block",
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
