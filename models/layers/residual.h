// A residual block: a Sequential in which one child, the Shortcut, adds the block's input. So the
// fuse pass sees batch_norm + shortcut + relu as adjacent modules.
#pragma once
#include "models/module/build.h"

namespace bellows {

// Adds the block's input x to its own input y: y + layers(x), or y + x if it has no layers.
// ResidualBlock stores x with enter() before its children run.
class Shortcut : public Sequential {
 public:
  const char* kind() const override { return "shortcut"; }
  void enter(const Tensor& x) { x_ = x; }
  // Returns x and drops it: call once per enter().
  Tensor leave() { return std::exchange(x_, {}); }
  // Returns layers(x) in y's precision, for adding to y. Calls leave().
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
  bool begins_with_conv2d() const override { return false; }  // the shortcut reads the input too

 protected:
  Tensor forward(const Tensor& x) override {
    shortcut_.enter(x);
    return Sequential::forward(x);
  }

 private:
  Shortcut& shortcut_;  // a descendant of this block
};

using AddLayers = std::function<void(Layers&)>;
// Returns a block of `layers`, the shortcut named `shortcut_name`, and `after`. Each callback adds
// layers to its argument. Sets context.shape to the output's. Throws Exit::usage if `layers` and
// `shortcut` end in different shapes.
ModulePtr residual_block(LayerContext& context, const AddLayers& layers, const AddLayers& shortcut,
                         const char* shortcut_name, const AddLayers& after);

}  // namespace bellows
