// Max and average pooling over windows: (N, C, H, W) to (N, C, H', W').
#pragma once
#include "models/module/module.h"
#include "ops/conv/pool.h"

namespace bellows {

struct PoolLayerOptions {
  int64_t kernel = 2;
  int64_t stride = 0;  // 0: same as kernel
  int64_t padding = 0;
};

class PoolLayer : public Module {
 public:
  using Function = Tensor (*)(const Tensor& x, const Pool2dOptions& options);
  PoolLayer(const char* kind, Function function, const PoolLayerOptions& options,
            LayerContext& context);
  const char* kind() const override { return kind_; }
  const Pool2dOptions& options() const { return options_; }

 protected:
  Tensor forward(const Tensor& x) override { return function_(x, options_); }

 private:
  const char* kind_;
  Function function_;
  Pool2dOptions options_;
};

struct MaxPoolLayer : PoolLayer {
  MaxPoolLayer(const PoolLayerOptions& options, LayerContext& context)
      : PoolLayer("max_pool2d", max_pool2d, options, context) {}
};
struct AvgPoolLayer : PoolLayer {
  AvgPoolLayer(const PoolLayerOptions& options, LayerContext& context)
      : PoolLayer("avg_pool2d", avg_pool2d, options, context) {}
};

}  // namespace bellows
