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

template <class F> ModulePtr make(const NoOptions&, LayerContext&) {
  return std::make_unique<ActivationLayer<F>>();
}

template <class List> struct AddLayers;
template <class... Fs> struct AddLayers<TypeList<Fs...>> {
  AddLayers() { (AddEntry<MakeLayer>(Fs::name, Fs::math, make<Fs>), ...); }
};
}  // namespace

static const AddLayers<functors::UnaryOps> layers;

}  // namespace bellows
