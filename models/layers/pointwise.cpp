#include "models/layers/pointwise.h"
#include "core/config/visitor.h"

namespace bellows {

static void visit(Visitor& v, PointwiseLayerOptions& o) {
  v("expression", o.expression, "of x: numbers, + - * /, names of elementwise ops, parameters");
  v.list("parameters", o.parameters,
         "other names in it: trained, one value per channel, 0 at first")
      .fixed(kOtherModel);
}

static std::vector<std::string> inputs_of(const PointwiseLayerOptions& o) {
  std::vector<std::string> inputs{"x"};
  inputs.insert(inputs.end(), o.parameters.begin(), o.parameters.end());
  return inputs;
}

PointwiseLayer::PointwiseLayer(const PointwiseLayerOptions& o, LayerContext& context)
    : chain_(o.expression, inputs_of(o)) {
  Shape channels = context.shape;  // (C, 1, 1), or (C)
  for (int i = 1; i < channels.rank(); ++i) channels[i] = 1;
  for (const std::string& name : chain_.inputs())
    if (name != "x")
      parameters_.push_back(
          add_parameter(name.c_str(), channels, {Init::constant, 0}, context.device));
}

Tensor PointwiseLayer::run(const Tensor& x, Impl impl) const {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), parameters_.begin(), parameters_.end());
  return pointwise(chain_, inputs, impl);
}

static const AddEntry<MakeLayer> pointwise_entry("pointwise",
                                                 "a chain of elementwise functions, as text",
                                                 make_layer<PointwiseLayer, PointwiseLayerOptions>);

}  // namespace bellows
