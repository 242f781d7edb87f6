// Layer that evaluates a chain of elementwise functions, given as text:
// "maximum(x, 0.1 * x) * (1 + scale) + shift".
#pragma once
#include "models/module/module.h"
#include "ops/chain/pointwise.h"

namespace bellows {

struct PointwiseLayerOptions {
  std::string expression = "relu(x)";   // x is the layer's input
  std::vector<std::string> parameters;  // names of trained values, one per channel, initially 0
};

class PointwiseLayer : public Module {
 public:
  PointwiseLayer(const PointwiseLayerOptions& options, LayerContext& context);
  const char* kind() const override { return "pointwise"; }
  Tensor run(const Tensor& x, Impl impl) const;

 protected:
  Tensor forward(const Tensor& x) override { return run(x, Impl::composed); }

 private:
  Chain chain_;
  std::vector<Tensor> parameters_;
};

}  // namespace bellows
