#include "models/module/build.h"

namespace bellows {

Layers& Layers::add(const std::string& name, const std::function<ModulePtr(LayerContext&)>& make) {
  try {
    model_->add(name, make(context_));
  } catch (const Error& error) {
    throw Error(cat("layer '", name, "': ", error.what()), error.exit);
  }
  return *this;
}

ModulePtr Layers::take(const Shape& output) {
  CHECK(context_.shape == output, "the model ends in samples of ", context_.shape,
        ", the data set's targets need ", output);
  return std::move(model_);
}

}  // namespace bellows
