// Fuses a residual block of two or three convolutions, each with a batch_norm, into one op
// (ops/conv/conv_norm.h).
#include "ops/conv/conv_norm.h"
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"
#include "models/layers/residual.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {

bool is_conv_norm(const Child& conv, const Child& norm) {
  const auto* const layer = dynamic_cast<Conv2dLayer*>(conv.module.get());
  const auto* const after = dynamic_cast<BatchNormLayer*>(norm.module.get());
  const bool alone = after && !after->synchronized();  // the op takes one rank's statistics
  return layer && !layer->bias().defined() && alone;
}

bool is_identity_or_conv_norm(const Child& shortcut) {
  const std::vector<Child>& inside = shortcut.module->children();
  return inside.empty() || (inside.size() == 2 && is_conv_norm(inside[0], inside[1]));
}

class ConvNorm : public Fused {
 public:
  explicit ConvNorm(std::span<Child> window)
      : Fused(window),
        shortcut_(child<Shortcut>(children().size() - 2)),
        main_(pairs_in(children())),
        in_shortcut_(pairs_in(shortcut_.children())) {}
  const char* kind() const override { return "conv_norm"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return conv_norm(x, shortcut_.leave(), layers_of(main_), layers_of(in_shortcut_));
  }

 private:
  struct Pair {  // a convolution and the batch_norm after it
    Conv2dLayer& conv;
    BatchNormLayer& norm;
  };
  static std::vector<Pair> pairs_in(const std::vector<Child>& modules) {
    std::vector<Pair> pairs;
    for (size_t i = 0; i + 1 < modules.size(); ++i)
      if (auto* const conv = dynamic_cast<Conv2dLayer*>(modules[i].module.get()))
        pairs.push_back({*conv, dynamic_cast<BatchNormLayer&>(*modules[i + 1].module)});
    return pairs;
  }
  // With their current parameters.
  static std::vector<ConvNormLayer> layers_of(const std::vector<Pair>& pairs) {
    std::vector<ConvNormLayer> layers;
    for (const auto& [conv, norm] : pairs)
      layers.push_back(
          {.w = conv.weight(),
           .conv = {.stride = conv.options().stride, .padding = conv.options().padding},
           .norm = norm.norm(),
           .slot = &conv.slot()});
    return layers;
  }

  Shortcut& shortcut_;
  const std::vector<Pair> main_, in_shortcut_;
};

bool matches_block(std::span<Child> window) {
  for (size_t i = 0; i + 1 < window.size(); i += 3)
    if (!is_conv_norm(window[i], window[i + 1])) return false;
  return is_identity_or_conv_norm(window[window.size() - 2]);
}

AddRewrite block_of(const std::vector<std::string_view>& kinds) {
  return AddRewrite({.name = "fuse.conv_norm",
                     .help = "a residual block as one op: backward recomputes the outputs of its "
                             "batch_norms; on a GPU in f16 they are never written",
                     .kinds = kinds,
                     .matches = matches_block,
                     .fused = make_fused<ConvNorm>});
}

}  // namespace

static const AddRewrite basic =
    block_of({"conv2d", "batch_norm", "relu", "conv2d", "batch_norm", "shortcut", "relu"});
static const AddRewrite bottleneck =
    block_of({"conv2d", "batch_norm", "relu", "conv2d", "batch_norm", "relu", "conv2d",
              "batch_norm", "shortcut", "relu"});

}  // namespace bellows
