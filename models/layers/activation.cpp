// Layers that apply an elementwise op of ops/base/functors.h, under its name: relu, gelu, tanh and
// all the others. Any shape.
#include "models/module/module.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {
template <class F> class ActivationLayer : public Module {
 public:
  const char* kind() const override { return F::name; }

 protected:
  Tensor forward(const Tensor& x) override { return unary<F>(x); }
};

template <class F> ModulePtr make_unary(const NoOptions&, LayerContext&) {
  return std::make_unique<ActivationLayer<F>>();
}

template <class List> struct AddUnaryLayers;
template <class... Fs> struct AddUnaryLayers<TypeList<Fs...>> {
  AddUnaryLayers() { (AddEntry<MakeLayer>(Fs::name, Fs::math, make_unary<Fs>), ...); }
};
}  // namespace

static const AddUnaryLayers<functors::UnaryOps> layers;

}  // namespace bellows
