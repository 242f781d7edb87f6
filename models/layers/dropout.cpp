#include "models/layers/dropout.h"
#include "core/config/visitor.h"
#include "ops/dropout.h"

namespace bellows {

static void visit(Visitor& v, DropoutLayerOptions& o) {
  v("p", o.p, "share of the elements set to 0", {.min = 0, .max = 0.99});
}

namespace {
// The mask is a function of seed, module path and step, so backward and a replayed forward generate
// the same mask.
class DropoutLayer : public Module {
 public:
  DropoutLayer(double p, const LayerContext& context)
      : p_(p), seed_(context.seed), state_(context.state) {}
  const char* kind() const override { return "dropout"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return training() ? dropout(x, p_, seed_, *state_) : x;
  }

 private:
  double p_;
  uint64_t seed_;
  std::shared_ptr<const DeviceStepState> state_;
};
}  // namespace

static ModulePtr make_dropout(const DropoutLayerOptions& options, LayerContext& context) {
  return std::make_unique<DropoutLayer>(options.p, context);
}
static const AddEntry<MakeLayer> dropout_entry("dropout", "zeros at random while training",
                                               make_dropout);

}  // namespace bellows
