// Sequential: runs its children in order. The fuse pass rewrites its list of children.
#pragma once
#include "models/module/module.h"

namespace bellows {

class Sequential : public Module {
 public:
  const char* kind() const override { return "sequential"; }
  bool begins_with_conv2d() const override {
    return !children().empty() && children().front().module->begins_with_conv2d();
  }
  Module& add(const std::string& name, ModulePtr module) {
    return add_child(name, std::move(module));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const Child& child : children()) y = (*child.module)(y);
    return y;
  }
};

}  // namespace bellows
