#include "models/module/module.h"
#include "ops/shape.h"

namespace bellows {

namespace {
class FlattenLayer : public Module {
 public:
  const char* kind() const override { return "flatten"; }

 protected:
  Tensor forward(const Tensor& x) override { return flatten(x); }
};
}  // namespace

static ModulePtr make_flatten(const NoOptions&, LayerContext& context) {
  context.shape = {context.shape.numel()};
  return std::make_unique<FlattenLayer>();
}
static const AddEntry<MakeLayer> flatten_entry("flatten", "(N, C, H, W) to (N, C * H * W)",
                                               make_flatten);

}  // namespace bellows
