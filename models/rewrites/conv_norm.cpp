// Fuses a residual block of two or three convolutions, each with a batch_norm, into one op
// (ops/conv/conv_norm.h).
#include "ops/conv/conv_norm.h"
#include "models/layers/residual.h"
#include "models/module/rewrite.h"
#include "models/rewrites/normed_conv.h"

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
        main_(normed_convs_in(children(), "")),
        in_shortcut_(normed_convs_in(shortcut_.children(), "")) {}
  const char* kind() const override { return "conv_norm"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return conv_norm(x, shortcut_.leave(), layers_of(main_), layers_of(in_shortcut_));
  }

 private:
  // With their current parameters.
  static std::vector<ConvNormLayer> layers_of(const std::vector<NormedConv>& convs) {
    std::vector<ConvNormLayer> layers;
    for (const NormedConv& c : convs) {
      const Conv2dLayerOptions& o = c.layer->options();
      layers.push_back({.w = c.layer->weight(),
                        .conv = {.stride = o.stride, .padding = o.padding},
                        .norm = c.after->norm(),
                        .slot = &c.layer->slot()});
    }
    return layers;
  }

  Shortcut& shortcut_;
  const std::vector<NormedConv> main_, in_shortcut_;
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
