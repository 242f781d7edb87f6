// conv2d + batch_norm, and a shortcut and relu behind them: in evaluation without a gradient scale
// and shift of the norm are folded into the convolution's weights. Training is that of bn_act and
// bn_add_act.
#include <array>
#include <optional>
#include "models/fuse.h"
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/residual.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace bellows {

namespace {

struct Folded {
  Tensor w, b;
};

// norm(conv(x)) = conv'(x): w' = w s and b' = bias + (b - mean) s, where s = weight / sqrt(var +
// eps).
Folded fold(const Conv2dLayer& conv, const BatchNormLayer& norm) {
  const RunningStatistics& running = norm.running();
  const Tensor s = div(norm.weight(), sqrt(add(running.var, norm.options().eps)));
  const Tensor moved = conv.bias().defined() ? sub(conv.bias(), running.mean) : neg(running.mean);
  return {mul(conv.weight(), reshape(s, {s.numel(), 1, 1, 1})), add(norm.bias(), mul(moved, s))};
}

class ConvBatchNorm : public Fused {
 public:
  explicit ConvBatchNorm(std::span<Child> window)
      : Fused(window),
        conv_(child<Conv2dLayer>(0)),
        norm_(child<BatchNormLayer>(1)),
        shortcut_(window.size() == 4 ? &child<Shortcut>(2) : nullptr),
        relu_(window.size() > 2) {}
  const char* kind() const override { return "conv_bn"; }
  bool begins_with_conv2d() const override { return true; }

 protected:
  Tensor forward(const Tensor& x) override {
    if (training() || will_record(x, conv_.weight(), norm_.weight())) return as_trained(x);
    const Folded& now = folded();
    const Conv2dLayerOptions& o = conv_.options();
    const Tensor y =
        conv2d(x, now.w, now.b, {.stride = o.stride, .padding = o.padding}, &conv_.slot());
    if (shortcut_) return add_relu(y, shortcut_->value(y), Impl::fused);
    return relu_ ? relu(y) : y;
  }

 private:
  Tensor as_trained(const Tensor& x) {
    const Tensor y = conv_(x);
    return relu_ ? norm_.with_relu(y, shortcut_ ? shortcut_->value(y) : Tensor()) : norm_(y);
  }

  // Good for one version of what it is made of.
  const Folded& folded() {
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
  BatchNormLayer& norm_;
  Shortcut* const shortcut_;
  const bool relu_;
  std::optional<Folded> folded_;
  std::array<uint32_t, 6> versions_{};
};

template <size_t length> bool matches(std::span<Child> window) {
  if (!is<Conv2dLayer>(window[0]) || !is<BatchNormLayer>(window[1])) return false;
  if (length == 4 && !is<Shortcut>(window[2])) return false;
  return length == 2 || is_kind(window[length - 1], "relu");
}

template <size_t length> AddPattern pattern_of() {
  return AddPattern({.name = "conv_bn",
                     .help = "conv2d + batch_norm, without a gradient: one convolution",
                     .length = length,
                     .matches = matches<length>,
                     .fuse = make_fused<ConvBatchNorm>});
}

}  // namespace

static const AddPattern alone = pattern_of<2>(), with_relu = pattern_of<3>(),
                        with_shortcut = pattern_of<4>();

}  // namespace bellows
