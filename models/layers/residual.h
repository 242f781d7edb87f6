// A residual block: layers one after the other, among them a Shortcut that adds what came into the
// block. So the fuse pass sees batch_norm + shortcut + relu as neighbours.
#pragma once
#include "models/module/build.h"

namespace bellows {

// y + its layers of the block's input; without any, y + that input.
class Shortcut : public Sequential {
 public:
  const char* kind() const override { return "shortcut"; }
  void enter(const Tensor& x) { x_ = x; }
  Tensor leave() { return std::exchange(x_, {}); }  // what enter() was given; once for each
  // What is to be added to y, in its precision; once for each enter().
  Tensor value(const Tensor& y);

 protected:
  Tensor forward(const Tensor& y) override;

 private:
  Tensor x_;
};

class ResidualBlock : public Sequential {
 public:
  explicit ResidualBlock(Shortcut& shortcut) : shortcut_(shortcut) {}
  const char* kind() const override { return "residual"; }
  bool begins_with_conv2d() const override { return false; }  // the shortcut gets it, too

 protected:
  Tensor forward(const Tensor& x) override {
    shortcut_.enter(x);
    return Sequential::forward(x);
  }

 private:
  Shortcut& shortcut_;  // a descendant
};

using AddLayers = std::function<void(Layers&)>;
// The layers, the shortcut around them under the name of `shortcut_name`, and what comes after.
ModulePtr residual_block(LayerContext& context, const AddLayers& layers, const AddLayers& shortcut,
                         const char* shortcut_name, const AddLayers& after);

}  // namespace bellows
