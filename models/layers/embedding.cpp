#include "models/layers/embedding.h"
#include "core/config/visitor.h"

namespace bellows {

static void visit(Visitor& v, EmbeddingLayerOptions& o) {
  v("entries", o.entries, "size of the vocabulary, required", {.min = 1, .max = 1 << 30});
  v("width", o.width, "elements of a vector", {.min = 1, .max = 1 << 20});
}

EmbeddingLayer::EmbeddingLayer(const EmbeddingLayerOptions& o, LayerContext& context) {
  CHECK(o.entries > 0, "embedding: the size of the vocabulary is missing; add  entries: N");
  CHECK(context.shape.rank() == 1, "embedding: needs samples of (T) indices, got ", context.shape);
  weight_ = add_parameter("weight", {o.entries, o.width}, {Init::normal, 0.02}, context.device);
  context.shape.push_back(o.width);
}

static const AddEntry<MakeLayer> embedding_entry("embedding", "a trained vector for each index",
                                                 make_layer<EmbeddingLayer, EmbeddingLayerOptions>);

}  // namespace bellows
