// Writing a model: layers one after the other, each built for the shape that the last one left.
#pragma once
#include "models/module/sequential.h"

namespace bellows {

class Layers {
 public:
  // Into a Sequential of that kind.
  explicit Layers(const LayerContext& context,
                  std::unique_ptr<Sequential> into = std::make_unique<Sequential>())
      : context_(context), model_(std::move(into)) {}

  template <class Layer, class Options>
  Layers& add(const std::string& name, const Options& options) {
    return add(name, [&](LayerContext& c) { return std::make_unique<Layer>(options, c); });
  }
  // An entry of the open collection of layers; by name alone, with its defaults.
  Layers& add(const std::string& name, const Choice<MakeLayer>& layer) {
    return add(name, [&](LayerContext& c) { return layer.make(c); });
  }
  Layers& add(const std::string& name, const char* layer) {
    return add(name, Choice<MakeLayer>(layer));
  }
  // Whatever that makes, from the context that it is to leave behind. An error names the layer.
  Layers& add(const std::string& name, const std::function<ModulePtr(LayerContext&)>& make);

  const Shape& shape() const { return context_.shape; }  // of samples, after the last layer
  ModulePtr take() { return std::move(model_); }
  // The model, checked to end in one number for each class.
  ModulePtr take(int64_t classes);

 private:
  LayerContext context_;
  std::unique_ptr<Sequential> model_;
};

}  // namespace bellows
