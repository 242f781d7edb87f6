#include "models/layers/linear.h"
#include <cmath>
#include "core/config/visitor.h"

namespace bellows {

static void visit(Visitor& v, LinearLayerOptions& o) {
  v("out", o.out, "output features", {.min = 1, .max = 1 << 30})
      .also({"out_channels", "out_features"});
  v("bias", o.bias, "add one value per feature");
}

LinearLayer::LinearLayer(const LinearLayerOptions& o, LayerContext& context) {
  CHECK(context.shape.rank() == 1 || context.shape.rank() == 2,
        "linear: needs flat samples, or (T, in), got ", context.shape,
        "; put a flatten layer before it");
  const int64_t in = context.shape[-1];
  const Init by_fan_in{Init::uniform, 1 / std::sqrt(double(in))};  // as in torch.nn.Linear
  weight_ = add_parameter("weight", {o.out, in}, o.init.value_or(by_fan_in), context.device);
  const Init of_bias = o.init ? Init{Init::constant, 0} : by_fan_in;
  if (o.bias) bias_ = add_parameter("bias", {o.out}, of_bias, context.device);
  context.shape[-1] = o.out;
}

static const AddEntry<MakeLayer> linear_entry("linear", "fully connected",
                                              make_layer<LinearLayer, LinearLayerOptions>);

}  // namespace bellows
