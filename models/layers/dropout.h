// Dropout layer, which is the identity in evaluation.
#pragma once
#include "models/module/module.h"
#include "ops/dropout.h"

namespace bellows {

struct DropoutLayerOptions {
  double p = 0.5;  // probability that an element becomes zero
};

// The mask is a function of seed, module path and step, so backward and a replayed forward generate
// the same mask.
class DropoutLayer : public Module {
 public:
  DropoutLayer(const DropoutLayerOptions& options, const LayerContext& context)
      : p_(options.p), seed_(context.seed), state_(context.state) {}
  const char* kind() const override { return "dropout"; }
  bool draws() const override { return true; }

 protected:
  Tensor forward(const Tensor& x) override {
    return training() ? dropout(x, p_, seed_, *state_) : x;
  }

 private:
  double p_;
  uint64_t seed_;
  std::shared_ptr<const DeviceStepState> state_;
};

}  // namespace bellows
