// A layer without parameters or state: a function of its input.
#pragma once
#include "models/module/module.h"

namespace bellows {

class FunctionLayer : public Module {
 public:
  using Function = std::function<Tensor(const Tensor& x)>;
  FunctionLayer(const char* kind, Function function)
      : kind_(kind), function_(std::move(function)) {}
  const char* kind() const override { return kind_; }

 protected:
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  const char* kind_;
  Function function_;
};

}  // namespace bellows
