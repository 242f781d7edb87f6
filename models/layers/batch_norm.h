// Batch normalization layer for inputs (N, C) or (N, C, H, W): weight, bias, running_mean,
// running_var (C) and num_batches_tracked, as torch.nn.BatchNorm2d.
#pragma once
#include "models/module/module.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

struct BatchNormLayerOptions {
  double eps = 1e-5, momentum = 0.1;
};

class BatchNormLayer : public Module {
 public:
  BatchNormLayer(const BatchNormLayerOptions& options, LayerContext& context);
  const char* kind() const override { return "batch_norm"; }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  const RunningStatistics& running() const { return running_; }
  BatchNormOptions options() const;
  // Makes training use the running statistics, too, and leave them unchanged.
  void freeze_statistics() { frozen_ = true; }
  // True if forward computes the batch's statistics: in training, unless they are frozen.
  bool takes_statistics() const { return training() && !frozen_; }
  // True if training takes the statistics of all ranks' batches (model.sync_bn).
  bool synchronized() const { return group_; }
  // Returns relu(batch_norm(x) + residual) from the fused op. `residual` may be undefined.
  Tensor with_relu(const Tensor& x, const Tensor& residual);
  NormLayer norm() { return {weight_, bias_, running_, options()}; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  BatchNormLayerOptions options_;
  Tensor weight_, bias_;
  RunningStatistics running_;
  bool frozen_ = false;
  ProcessGroup* group_;  // ranks that share statistics; null: each rank has its own
};

}  // namespace bellows
