#include "autograd/amp.h"
#include "models/layers/attention.h"
#include "ops/elementwise.h"

namespace bellows {

// GPT-2's block: y = x + attention(norm1(x)), then y + down(gelu(up(norm2(y)))), of (N, T, D). up
// has 4 D outputs. Norms before the sublayers: Xiong et al., "On Layer Normalization in the
// Transformer Architecture", ICML 2020.
class TransformerBlock : public Module {
 public:
  TransformerBlock(const AttentionLayerOptions& options, LayerContext& context) {
    const auto linear = [&](int64_t out) {
      return make_layer<LinearLayer>(LinearLayerOptions{out, true, kGptInit}, context);
    };
    add_child("norm1", Choice<MakeLayer>("layer_norm").make(context));
    add_child("attention", make_layer<AttentionLayer>(options, context));
    add_child("norm2", Choice<MakeLayer>("layer_norm").make(context));
    add_child("up", linear(4 * context.shape[1]));
    add_child("down", linear(context.shape[1] / 4));
  }
  const char* kind() const override { return "transformer_block"; }

 protected:
  // Under amp the sums stay in f32.
  Tensor forward(const Tensor& x_) override {
    const Tensor x = amp::full(x_), y = bellows::add(x, amp::full(run_child(1, run_child(0, x))));
    return bellows::add(y, amp::full(run_child(4, gelu(run_child(3, run_child(2, y))))));
  }
};

static const AddEntry<MakeLayer> transformer_block_entry(
    "transformer_block", "attention and two linear layers, each with a norm before it",
    make_layer<TransformerBlock, AttentionLayerOptions>);

}  // namespace bellows
