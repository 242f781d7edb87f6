// conv2d as a layer: weight (out, in, k, k), bias (out), as torch.nn.Conv2d.
#pragma once
#include "models/module/module.h"
#include "ops/conv/conv2d.h"

namespace bellows {

struct Conv2dLayerOptions {
  int64_t out = 1, kernel = 3, stride = 1, padding = 0;
  bool bias = true;
  // As PyTorch's layer, or as torchvision's ResNets: kaiming_normal over fan_out, or as PyTorch's
  // with filters that pass on a channel each in front (dirac_).
  enum class Start { uniform, kaiming_normal, dirac } init = Start::uniform;
};

class Conv2dLayer : public Module {
 public:
  // Reads context.shape (C, H, W) and leaves the output's there.
  Conv2dLayer(const Conv2dLayerOptions& options, LayerContext& context);

  const char* kind() const override { return "conv2d"; }
  bool begins_with_conv2d() const override { return true; }
  const Conv2dLayerOptions& options() const { return options_; }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined without one
  Slot& slot() { return slot_; }
  void drop_bias();

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Conv2dLayerOptions options_;
  Tensor weight_, bias_;
  Slot slot_;
};

}  // namespace bellows
