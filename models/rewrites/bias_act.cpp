// Fuses linear + relu: the product's epilogue applies bias and activation (ops/matmul/linear.h).
#include "models/layers/linear.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class LinearRelu : public Fused {
 public:
  explicit LinearRelu(std::span<Child> window) : Fused(window), linear_(child<LinearLayer>(0)) {}
  const char* kind() const override { return "bias_act"; }

 protected:
  Tensor forward(const Tensor& x) override { return linear_.with_relu(x); }

 private:
  LinearLayer& linear_;
};
}  // namespace

static const AddRewrite bias_act_rewrite({
    .name = "fuse.bias_act",
    .help = "linear + relu: bias and activation in the product's epilogue",
    .kinds = {"linear", "relu"},
    .fused = make_fused<LinearRelu>,
});

}  // namespace bellows
