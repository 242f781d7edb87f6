// Embedding layer: replaces each index of a sample by a trained vector, (N, T) i64 to (N, T,
// width). weight (entries, width), as torch.nn.Embedding; it starts with a standard deviation of
// 0.02.
#pragma once
#include "models/module/module.h"
#include "ops/embedding.h"

namespace bellows {

struct EmbeddingLayerOptions {
  int64_t entries = 0, width = 64;
};

class EmbeddingLayer : public Module {
 public:
  EmbeddingLayer(const EmbeddingLayerOptions& options, LayerContext& context);
  const char* kind() const override { return "embedding"; }
  const Tensor& weight() const { return weight_; }

 protected:
  Tensor forward(const Tensor& x) override { return embedding(x, weight_); }

 private:
  Tensor weight_;
};

}  // namespace bellows
