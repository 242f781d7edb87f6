// Layers that apply an elementwise op of ops/base/functors.h, under its name: relu, gelu, tanh and
// all the others. Any shape.
#include "models/module/function_layer.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {
template <class F> ModulePtr make_unary(const NoOptions&, LayerContext&) {
  return std::make_unique<FunctionLayer>(F::name, [](const Tensor& x) { return unary<F>(x); });
}

template <class List> struct AddUnaryLayers;
template <class... Fs> struct AddUnaryLayers<TypeList<Fs...>> {
  AddUnaryLayers() { (AddEntry<MakeLayer>(Fs::name, Fs::math, make_unary<Fs>), ...); }
};
}  // namespace

static const AddUnaryLayers<functors::UnaryOps> layers;

}  // namespace bellows
