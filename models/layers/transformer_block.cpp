#include "autograd/amp.h"
#include "models/layers/attention.h"
#include "models/layers/linear.h"
#include "ops/elementwise.h"

namespace bellows {

// GPT-2's block: y = x + attention(norm1(x)), then y + down(gelu_tanh(up(norm2(y)))), (N, T, D). up
// has 4 D outputs. Norms before the sublayers: Xiong et al., "On Layer Normalization in the
// Transformer Architecture", ICML 2020.
class TransformerBlock : public Module {
 public:
  TransformerBlock(const AttentionLayerOptions& options, LayerContext& context) {
    const int64_t width = context.shape[-1];
    norm1_ = add("norm1", Choice<MakeLayer>("layer_norm").make(context));
    attention_ = add("", make_layer<AttentionLayer>(options, context));
    norm2_ = add("norm2", Choice<MakeLayer>("layer_norm").make(context));
    up_ = add("up", linear_layer(4 * width, context));
    down_ = add("down", linear_layer(width, context));
  }
  const char* kind() const override { return "transformer_block"; }

 protected:
  // Under amp the sums stay in f32.
  Tensor forward(const Tensor& x_) override {
    const Tensor x = amp::full(x_);
    const Tensor y = bellows::add(x, amp::full((*attention_)((*norm1_)(x))));
    return bellows::add(y, amp::full((*down_)(gelu_tanh((*up_)((*norm2_)(y))))));
  }

 private:
  Module* add(const char* name, ModulePtr layer) { return &add_child(name, std::move(layer)); }
  static ModulePtr linear_layer(int64_t out, LayerContext& context) {
    return make_layer<LinearLayer>(LinearLayerOptions{out, true, kGptInit}, context);
  }

  Module *norm1_, *attention_, *norm2_, *up_, *down_;
};

static const AddEntry<MakeLayer> transformer_block_entry(
    "transformer_block", "attention and two linear layers, each with a norm before it",
    make_layer<TransformerBlock, AttentionLayerOptions>);

}  // namespace bellows
