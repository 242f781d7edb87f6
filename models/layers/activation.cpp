#include "models/layers/activation.h"

namespace bellows {

template <class F> static ModulePtr make(const NoOptions&, LayerContext&) {
  return std::make_unique<ActivationLayer>(F::name, &unary<F>);
}

static const AddEntry<MakeLayer> relu_entry("relu", "max(x, 0)", make<functors::Relu>);
static const AddEntry<MakeLayer> gelu_entry("gelu", "x times the normal cdf", make<functors::Gelu>);
static const AddEntry<MakeLayer> tanh_entry("tanh", "tanh(x)", make<functors::Tanh>);
static const AddEntry<MakeLayer> sigmoid_entry("sigmoid", "1 / (1 + exp(-x))",
                                               make<functors::Sigmoid>);

}  // namespace bellows
