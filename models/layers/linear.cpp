#include "models/layers/linear.h"
#include <cmath>
#include "core/config/visitor.h"

namespace bellows {

static void visit(Visitor& v, LinearLayerOptions& o) {
  v("out", o.out, "output features", {.min = 1, .max = 1 << 30});
  v("bias", o.bias, "add one value per feature");
}

LinearLayer::LinearLayer(const LinearLayerOptions& o, LayerContext& context) {
  CHECK(context.shape.rank() == 1, "linear: needs flat samples, got ", context.shape,
        "; put a flatten layer before it");
  const int64_t in = context.shape[0];
  const Init init{Init::uniform, 1 / std::sqrt(double(in))};  // as in torch.nn.Linear
  weight_ = add_parameter("weight", {o.out, in}, init, context.device);
  if (o.bias) bias_ = add_parameter("bias", {o.out}, init, context.device);
  context.shape = {o.out};
}

static const AddEntry<MakeLayer> linear_entry("linear", "fully connected",
                                              make_layer<LinearLayer, LinearLayerOptions>);

}  // namespace bellows
