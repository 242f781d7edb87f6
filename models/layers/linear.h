// Fully connected layer, y = x w^T + b: (N, in) to (N, out), or (N, T, in) to (N, T, out). weight
// (out, in), bias (out), as torch.nn.Linear.
#pragma once
#include "models/module/module.h"
#include "ops/matmul/linear.h"

namespace bellows {

struct LinearLayerOptions {
  int64_t out = 1;
  bool bias = true;
  std::optional<Init> init = {};  // of the weight, with bias 0; nullopt: torch's defaults
};

class LinearLayer : public Module {
 public:
  LinearLayer(const LinearLayerOptions& options, LayerContext& context);
  const char* kind() const override { return "linear"; }
  // Returns relu(x w^T + b) from the fused op.
  Tensor with_relu(const Tensor& x) { return linear_relu(x, weight_, bias_, Impl::fused, &slot_); }

 protected:
  Tensor forward(const Tensor& x) override { return linear(x, weight_, bias_, &slot_); }

 private:
  Tensor weight_, bias_;
  Slot slot_;
};

}  // namespace bellows
