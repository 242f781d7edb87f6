// A convolutional net followed by transformer blocks: each pixel of the last feature map is a
// position. A net without the blocks shows what attention costs in time at equal memory.
#include "core/config/visitor.h"
#include "models/layers/attention.h"
#include "models/layers/conv2d.h"
#include "models/layers/linear.h"
#include "models/module/build.h"
#include "models/module/function_layer.h"
#include "ops/shape.h"

namespace bellows {

namespace {
struct CnnTransformerOptions {
  int64_t width = 64, layers = 2, heads = 4;
};
void visit(Visitor& v, CnnTransformerOptions& o) {
  v("width", o.width, "channels of the last feature map", {.min = 2, .max = 65536});
  v("layers", o.layers, "transformer blocks", {.min = 0, .max = 1024}).fixed(kOtherModel);
  v("heads", o.heads, "parts of a position that attend separately", {.min = 1, .max = 65536});
}

// (N, C, H, W) to (N, H * W, C).
ModulePtr pixels_as_positions(LayerContext& context) {
  context.shape = {context.shape[1] * context.shape[2], context.shape[0]};
  return std::make_unique<FunctionLayer>("pixels_as_positions", [](const Tensor& x) {
    return reshape(permute(x, {0, 2, 3, 1}), {x.dim(0), x.dim(2) * x.dim(3), x.dim(1)});
  });
}

void add_conv(Layers& net, const std::string& number, int64_t out) {
  net.add<Conv2dLayer>(
         "conv" + number,
         Conv2dLayerOptions{.out = out, .kernel = 3, .stride = 2, .padding = 1, .bias = false})
      .add("bn" + number, "batch_norm")
      .add("relu" + number, "relu");
}
}  // namespace

static ModulePtr cnn_transformer(const CnnTransformerOptions& o, const ModelContext& context) {
  Choice<MakeLayer> block("transformer_block");
  block.as<AttentionLayerOptions>() = {.heads = o.heads, .causal = false};
  Layers net(context);
  add_conv(net, "1", o.width / 2);
  add_conv(net, "2", o.width);
  net.add("positions", pixels_as_positions).add("places", "positions");
  for (int64_t i = 0; i < o.layers; ++i) net.add("block" + std::to_string(i + 1), block);
  return net.add("norm", "layer_norm")
      .add("mean", "sequence_mean")
      .add<LinearLayer>("fc", LinearLayerOptions{.out = context.classes})
      .take(context.output);
}

static const AddEntry<MakeModel> cnn_transformer_entry(
    "cnn_transformer", "convolutions, and transformer blocks on their feature map",
    cnn_transformer);

}  // namespace bellows
