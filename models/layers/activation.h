// Layer that applies an elementwise function: relu, gelu, tanh, sigmoid. Any shape.
#pragma once
#include "models/module/module.h"
#include "ops/elementwise.h"

namespace bellows {

class ActivationLayer : public Module {
 public:
  using Function = Tensor (*)(const Tensor& x);
  ActivationLayer(const char* kind, Function function) : kind_(kind), function_(function) {}
  const char* kind() const override { return kind_; }

 protected:
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  const char* kind_;
  Function function_;
};

}  // namespace bellows
