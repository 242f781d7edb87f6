// Writing a model: layers one after the other, each built for the shape that the last one left.
#pragma once
#include "models/sequential.h"

namespace bellows {

class Layers {
 public:
  explicit Layers(const ModelContext& context) : context_(context.layers()) {}

  template <class Layer, class Options>
  Layers& add(const std::string& name, const Options& options) {
    return add_made(name, [&] { return std::make_unique<Layer>(options, context_); });
  }
  // An entry of the open collection of layers; by name alone, with its defaults.
  Layers& add(const std::string& name, const Choice<MakeLayer>& layer) {
    return add_made(name, [&] { return layer.make(context_); });
  }
  Layers& add(const std::string& name, const char* layer) {
    return add(name, Choice<MakeLayer>(layer));
  }
  // The model, checked to end in one number for each class.
  ModulePtr take(int64_t classes);

 private:
  // An error in there names the layer.
  Layers& add_made(const std::string& name, const std::function<ModulePtr()>& make);

  LayerContext context_;
  std::unique_ptr<Sequential> model_ = std::make_unique<Sequential>();
};

}  // namespace bellows
