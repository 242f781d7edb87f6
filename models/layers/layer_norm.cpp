#include "ops/norm/layer_norm.h"
#include "core/config/visitor.h"
#include "models/module/module.h"

namespace bellows {

namespace {
struct LayerNormOptions {
  double eps = 1e-5;
};
void visit(Visitor& v, LayerNormOptions& o) {
  v("eps", o.eps, "added to the variance", {.min = 0});
}

// Normalizes the last axis, of size D, of samples of any shape. weight and bias (D), as
// torch.nn.LayerNorm.
class LayerNormLayer : public Module {
 public:
  LayerNormLayer(const LayerNormOptions& options, LayerContext& context) : eps_(options.eps) {
    CHECK(context.shape.rank() > 0, "layer_norm: a sample of one value has no axis to normalize");
    const Shape last{context.shape[-1]};
    weight_ = add_parameter("weight", last, {Init::constant, 1}, context.device);
    bias_ = add_parameter("bias", last, {Init::constant, 0}, context.device);
  }
  const char* kind() const override { return "layer_norm"; }

 protected:
  Tensor forward(const Tensor& x) override { return layer_norm(x, weight_, bias_, eps_); }

 private:
  double eps_;
  Tensor weight_, bias_;
};
}  // namespace

static const AddEntry<MakeLayer> layer_norm_entry("layer_norm",
                                                  "the last axis with mean 0 and variance 1",
                                                  make_layer<LayerNormLayer, LayerNormOptions>);

}  // namespace bellows
