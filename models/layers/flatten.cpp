#include "models/module/function_layer.h"
#include "ops/shape.h"

namespace bellows {

static ModulePtr make_flatten(const NoOptions&, LayerContext& context) {
  context.shape = {context.shape.numel()};
  return std::make_unique<FunctionLayer>("flatten", [](const Tensor& x) { return flatten(x); });
}
static const AddEntry<MakeLayer> flatten_entry("flatten", "(N, C, H, W) to (N, C * H * W)",
                                               make_flatten);

}  // namespace bellows
