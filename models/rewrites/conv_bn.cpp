// Folds the scale and shift of a batch_norm into the weights of the conv2d before it, in evaluation
// without gradients. Also matches a batch_norm that bn_act or bn_add_act has fused already. In
// training the original modules run.
#include <array>
#include <optional>
#include "core/base/trace.h"
#include "models/layers/residual.h"
#include "models/module/rewrite.h"
#include "models/rewrites/normed_conv.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace bellows {

FoldedConv fold(const Conv2dLayer& conv, const BatchNormLayer& norm) {
  const RunningStatistics& running = norm.running();
  const Tensor s = div(norm.weight(), sqrt(add(running.var, norm.options().eps)));
  const Tensor moved = conv.bias().defined() ? sub(conv.bias(), running.mean) : neg(running.mean);
  return {mul(conv.weight(), reshape(s, {s.numel(), 1, 1, 1})), add(norm.bias(), mul(moved, s))};
}

namespace {

// Modules that follow the convolution; `norm` is null if they do not match.
struct Behind {
  BatchNormLayer* norm = nullptr;
  Shortcut* shortcut = nullptr;
  Module* act = nullptr;  // relu or gelu
};
Behind behind(Module& module) {
  if (auto* const norm = dynamic_cast<BatchNormLayer*>(&module)) return {norm};
  const std::string_view kind = module.kind();
  if (kind != "bn_act" && kind != "bn_add_act") return {};
  const auto& parts = module.children();
  return {&dynamic_cast<BatchNormLayer&>(*parts[0].module),
          dynamic_cast<Shortcut*>(parts[1].module.get()), parts.back().module.get()};
}

class ConvBatchNorm : public Fused {
 public:
  explicit ConvBatchNorm(std::span<Child> window)
      : Fused(window),
        conv_(child<Conv2dLayer>(0)),
        rest_(child<Module>(1)),
        behind_(behind(rest_)),
        norm_(*behind_.norm) {}
  const char* kind() const override { return "conv_bn"; }
  bool begins_with_conv2d() const override { return true; }

 protected:
  Tensor forward(const Tensor& x) override {
    if (training() || will_record(x, conv_.weight(), norm_.weight())) return rest_(conv_(x));
    trace::count<"fuse.conv_bn">();
    const FoldedConv& now = folded();
    const Conv2dLayerOptions& o = conv_.options();
    const Tensor y =
        conv2d(x, now.w, now.b, {.stride = o.stride, .padding = o.padding}, &conv_.slot());
    if (behind_.shortcut) return add_relu(y, behind_.shortcut->value(y), Impl::fused);
    return behind_.act ? (*behind_.act)(y) : y;
  }

 private:
  // Returns the folded weights; folds again when the version of a parameter or statistic changed.
  const FoldedConv& folded() {
    const Tensor* const from[] = {&conv_.weight(),       &norm_.weight(),      &norm_.bias(),
                                  &norm_.running().mean, &norm_.running().var, &conv_.bias()};
    std::array<uint32_t, std::size(from)> versions{};
    for (size_t i = 0; i < versions.size(); ++i)
      if (from[i]->defined()) versions[i] = from[i]->storage()->version;
    if (!folded_ || versions != versions_) folded_ = fold(conv_, norm_);
    versions_ = versions;
    return *folded_;
  }

  Conv2dLayer& conv_;
  Module& rest_;
  const Behind behind_;
  BatchNormLayer& norm_;
  std::optional<FoldedConv> folded_;
  std::array<uint32_t, 6> versions_{};
};

}  // namespace

static const AddRewrite conv_bn_rewrite({
    .name = "fuse.conv_bn",
    .help = "conv2d + batch_norm, without a gradient: one convolution",
    .stage = Rewrite::fuse_rest,
    .kinds = {"conv2d", ""},
    .matches = [](std::span<Child> window) { return behind(*window[1].module).norm != nullptr; },
    .fused = make_fused<ConvBatchNorm>,
});

}  // namespace bellows
