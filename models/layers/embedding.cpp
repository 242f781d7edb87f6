#include "ops/embedding.h"
#include "core/config/visitor.h"
#include "models/module/module.h"

namespace bellows {

namespace {
struct EmbeddingOptions {
  int64_t entries = 0, width = 64;
};
void visit(Visitor& v, EmbeddingOptions& o) {
  v("entries", o.entries, "size of the vocabulary, required", {.min = 1, .max = 1 << 30});
  v("width", o.width, "elements of a vector", {.min = 1, .max = 1 << 20});
}

// Replaces each index of a sample by a trained vector: (N, T), i64, to (N, T, width). weight
// (entries, width), as torch.nn.Embedding.
class EmbeddingLayer : public Module {
 public:
  EmbeddingLayer(const EmbeddingOptions& o, LayerContext& context) {
    CHECK(o.entries > 0, "embedding: the size of the vocabulary is missing; add  entries: N");
    CHECK(context.shape.rank() == 1, "embedding: needs samples of (T) indices, got ",
          context.shape);
    weight_ = add_parameter("weight", {o.entries, o.width}, {Init::normal, 0.02}, context.device);
    context.shape.push_back(o.width);
  }
  const char* kind() const override { return "embedding"; }

 protected:
  Tensor forward(const Tensor& x) override { return embedding(x, weight_); }

 private:
  Tensor weight_;
};
}  // namespace

static const AddEntry<MakeLayer> embedding_entry("embedding", "a trained vector for each index",
                                                 make_layer<EmbeddingLayer, EmbeddingOptions>);

}  // namespace bellows
