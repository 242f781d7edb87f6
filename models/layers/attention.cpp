#include "models/layers/attention.h"
#include "core/config/visitor.h"

namespace bellows {

void visit(Visitor& v, AttentionLayerOptions& o) {
  v("heads", o.heads, "parts of a row that attend separately", {.min = 1, .max = 65536});
  v("causal", o.causal, "a position sees only those up to itself");
}

// A causal query sees no padding, which is at the end of a sample, unless it is padding itself.
AttentionLayer::AttentionLayer(const AttentionLayerOptions& o, LayerContext& context)
    : options_{o.heads, o.causal}, lengths_(o.causal ? nullptr : context.lengths) {
  const Shape& shape = context.shape;
  CHECK(shape.rank() == 2 && shape[1] % o.heads == 0, "attention: needs samples of (T, D), where ",
        "D is a multiple of ", o.heads, " heads, got ", shape);
  const int64_t D = shape[1];
  add_child("qkv", make_layer<LinearLayer>(LinearLayerOptions{3 * D, true, kGptInit}, context));
  context.shape[1] = D;
  add_child("out", make_layer<LinearLayer>(LinearLayerOptions{D, true, kGptInit}, context));
}

Tensor AttentionLayer::forward(const Tensor& x) {
  const Tensor lengths = lengths_ ? lengths_->value : Tensor();
  return run_child(1, attention(run_child(0, x), lengths, options_));
}

static const AddEntry<MakeLayer> attention_entry("attention", "multi-head self-attention",
                                                 make_layer<AttentionLayer, AttentionLayerOptions>);

}  // namespace bellows
