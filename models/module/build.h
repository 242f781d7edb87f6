// Layers: builds a Sequential layer by layer, each for the output shape of the one before.
#pragma once
#include "models/module/sequential.h"

namespace bellows {

class Layers {
 public:
  // Adds the layers to `into`. context.shape is the shape of input samples.
  explicit Layers(const LayerContext& context,
                  std::unique_ptr<Sequential> into = std::make_unique<Sequential>())
      : context_(context), model_(std::move(into)) {}

  template <class Layer, class Options>
  Layers& add(const std::string& name, const Options& options) {
    return add(name, [&](LayerContext& c) { return make_layer<Layer>(options, c); });
  }
  // Adds a registered layer; a name alone selects its default options.
  Layers& add(const std::string& name, const Choice<MakeLayer>& layer) {
    return add(name, [&](LayerContext& c) { return layer.make(c); });
  }
  Layers& add(const std::string& name, const char* layer) {
    return add(name, Choice<MakeLayer>(layer));
  }
  // Adds the module that `make` returns. `make` must set the context's shape to the output's. The
  // layer's name is prepended to errors.
  Layers& add(const std::string& name, const std::function<ModulePtr(LayerContext&)>& make);

  const Shape& shape() const { return context_.shape; }  // output shape of the last layer
  // Returns the model; this object is empty afterwards.
  ModulePtr take() { return std::move(model_); }
  // As take(); throws Exit::usage unless output samples have this shape.
  ModulePtr take(const Shape& output);

 private:
  LayerContext context_;
  std::unique_ptr<Sequential> model_;
};

}  // namespace bellows
