// Convolution layer: (N, in, H, W) to (N, out, H', W'), weight (out, in, k, k), bias (out), as
// torch.nn.Conv2d.
#pragma once
#include "models/module/module.h"
#include "ops/conv/conv2d.h"

namespace bellows {

struct Conv2dLayerOptions {
  int64_t out = 1, kernel = 3, stride = 1, padding = 0;
  bool bias = true;
  // Initial weights: uniform by fan_in (torch.nn.Conv2d), or kaiming_normal by fan_out
  // (torchvision's ResNets).
  enum class Start { uniform, kaiming_normal } init = Start::uniform;
};

class Conv2dLayer : public Module {
 public:
  // Reads the sample shape (C, H, W) from context.shape and replaces it with the output's.
  Conv2dLayer(const Conv2dLayerOptions& options, LayerContext& context);

  const char* kind() const override { return "conv2d"; }
  bool begins_with_conv2d() const override { return true; }
  const Conv2dLayerOptions& options() const { return options_; }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined without a bias
  Slot& slot() { return slot_; }
  // Removes the bias b. `mean`, the running mean of the norm that follows, then starts at -b, so
  // that evaluation stays as with the bias: x + b - mean = x - (mean - b), and each update moves
  // mean - b by the batch's mean of x.
  void drop_bias(const Tensor& mean);
  // Stores the weight in NCHW, for an op that computes in it. Call before initialize().
  void store_in_nchw();

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  void add_parameters(Device device, const MemoryFormat& format);

  Conv2dLayerOptions options_;
  int64_t in_channels_;
  Tensor weight_, bias_;
  Slot slot_;
};

}  // namespace bellows
