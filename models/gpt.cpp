// GPT: a decoder of transformer blocks that predicts the next token at each position. With `tied`
// the output layer shares the embedding's weight (Press and Wolf, "Using the Output Embedding to
// Improve Language Models", 2017). Source: Radford et al., "Language Models are Unsupervised
// Multitask Learners", 2019.
#include "core/config/visitor.h"
#include "models/layers/attention.h"
#include "models/layers/embedding.h"
#include "models/layers/linear.h"
#include "models/module/build.h"

namespace bellows {

namespace {
struct GptOptions {
  int64_t layers = 2, width = 64, heads = 4;
  bool tied = true;
};
void visit(Visitor& v, GptOptions& o) {
  v("layers", o.layers, "transformer blocks", {.min = 1, .max = 1024}).fixed(kOtherModel);
  v("width", o.width, "elements of a position", {.min = 1, .max = 1 << 20});
  v("heads", o.heads, "parts of a position that attend separately", {.min = 1, .max = 65536});
  v("tied", o.tied, "the output layer has the embedding's weight");
}

// Scores of the tokens: x w^T with the weight of the embedding.
class TiedHead : public Module {
 public:
  TiedHead(const Tensor& weight, LayerContext& context) : weight_(weight) {
    context.shape[-1] = weight.dim(0);
  }
  const char* kind() const override { return "tied_head"; }

 protected:
  Tensor forward(const Tensor& x) override { return linear(x, weight_, {}, &slot_); }

 private:
  Tensor weight_;
  Slot slot_;
};

ModulePtr blocks(const GptOptions& o, LayerContext& context) {
  Choice<MakeLayer> block("transformer_block");
  block.as<AttentionLayerOptions>().heads = o.heads;
  Layers layers(context);
  for (int64_t i = 0; i < o.layers; ++i) layers.add(std::to_string(i), block);
  context.shape = layers.shape();
  return layers.take();
}
}  // namespace

static ModulePtr gpt(const GptOptions& o, const ModelContext& context) {
  Layers layers(context);
  Tensor table;
  layers
      .add("tokens",
           [&](LayerContext& c) {
             auto tokens = std::make_unique<EmbeddingLayer>(
                 EmbeddingLayerOptions{context.classes, o.width}, c);
             table = tokens->weight();
             return tokens;
           })
      .add("places", "positions")
      .add("blocks", [&](LayerContext& c) { return blocks(o, c); })
      .add("norm", "layer_norm");
  if (o.tied)
    layers.add("head", [&](LayerContext& c) { return std::make_unique<TiedHead>(table, c); });
  else
    layers.add<LinearLayer>("head", LinearLayerOptions{context.classes, false, kGptInit});
  return layers.take(context.output);
}

static const AddEntry<MakeModel> gpt_entry("gpt", "a decoder of transformer blocks", gpt);

}  // namespace bellows
