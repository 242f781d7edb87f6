// Multi-head self-attention: (N, T, D) to (N, T, D), with two linear layers, qkv with 3 D outputs
// and out with D. Their weights start with a standard deviation of 0.02, as in GPT-2.
#pragma once
#include "models/layers/linear.h"
#include "ops/attention/attention.h"

namespace bellows {

struct AttentionLayerOptions {
  int64_t heads = 4;
  bool causal = true;
};
void visit(Visitor& v, AttentionLayerOptions& o);
inline constexpr Init kGptInit{Init::normal, 0.02};

class AttentionLayer : public Module {
 public:
  AttentionLayer(const AttentionLayerOptions& options, LayerContext& context);
  const char* kind() const override { return "attention"; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  AttentionOptions options_;
  std::shared_ptr<const BatchLengths> lengths_;  // null if it is causal
};

}  // namespace bellows
