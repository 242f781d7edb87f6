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

ModulePtr Layers::take(int64_t classes) {
  CHECK(context_.shape == Shape{classes}, "the model ends in samples of ", context_.shape,
        ", the data set has ", classes, " classes");
  return std::move(model_);
}

}  // namespace bellows
