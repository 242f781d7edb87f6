// Fuses a residual block of two or three convolutions, each with a batch_norm, into one op
// (ops/conv/residual_block.h).
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/residual.h"
#include "models/module/rewrite.h"
#include "ops/conv/residual_block.h"

namespace bellows {

namespace {

// conv, bn, relu, .. conv, bn, shortcut, relu
constexpr size_t length_of(size_t convs) { return 3 * convs + 1; }

bool is_conv_norm(const Child& conv, const Child& norm) {
  const auto* const layer = dynamic_cast<Conv2dLayer*>(conv.module.get());
  return layer && !layer->bias().defined() && is<BatchNormLayer>(norm);
}

bool is_identity_or_conv_norm(const Child& shortcut) {
  const std::vector<Child>& inside = shortcut.module->children();
  return inside.empty() || (inside.size() == 2 && is_conv_norm(inside[0], inside[1]));
}

struct Layer {
  Conv2dLayer& conv;
  BatchNormLayer& norm;
  ConvNorm now() const {
    const Conv2dLayerOptions& o = conv.options();
    return {.w = conv.weight(),
            .conv = {.stride = o.stride, .padding = o.padding},
            .weight = norm.weight(),
            .bias = norm.bias(),
            .running = norm.running(),
            .norm = norm.options(),
            .slot = &conv.slot()};
  }
};

class ConvNormBlock : public Fused {
 public:
  explicit ConvNormBlock(std::span<Child> window)
      : Fused(window), shortcut_(child<Shortcut>(children().size() - 2)) {
    for (size_t i = 0; i + 2 < children().size(); i += 3) add(layers_, children(), i);
    if (!shortcut_.children().empty()) add(aside_, shortcut_.children(), 0);
  }
  const char* kind() const override { return "conv_norm"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return residual_block(x, shortcut_.leave(), now(layers_), now(aside_));
  }

 private:
  static void add(std::vector<Layer>& to, std::vector<Child>& from, size_t i) {
    to.push_back({dynamic_cast<Conv2dLayer&>(*from[i].module),
                  dynamic_cast<BatchNormLayer&>(*from[i + 1].module)});
  }
  static std::vector<ConvNorm> now(const std::vector<Layer>& layers) {
    std::vector<ConvNorm> all;
    for (const Layer& layer : layers) all.push_back(layer.now());
    return all;
  }

  Shortcut& shortcut_;
  std::vector<Layer> layers_, aside_;
};

template <size_t convs> bool matches(std::span<Child> window) {
  for (size_t i = 0; i < convs; ++i)
    if (!is_conv_norm(window[3 * i], window[3 * i + 1])) return false;
  for (size_t i = 0; i + 1 < convs; ++i)
    if (!is_kind(window[3 * i + 2], "relu")) return false;
  const Child &shortcut = window[3 * convs - 1], &relu = window[3 * convs];
  return is<Shortcut>(shortcut) && is_identity_or_conv_norm(shortcut) && is_kind(relu, "relu");
}

template <size_t convs> AddRewrite block_of() {
  return AddRewrite({.name = "fuse.conv_norm",
                     .help = "a residual block as one op: what its batch_norms give in between is "
                             "computed again in backward; on a GPU in f16 it is never written",
                     .length = length_of(convs),
                     .matches = matches<convs>,
                     .fused = make_fused<ConvNormBlock>});
}

}  // namespace

static const AddRewrite basic = block_of<2>(), bottleneck = block_of<3>();

}  // namespace bellows
