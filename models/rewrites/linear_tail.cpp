// Fuses linear + relu + linear + relu + linear into one op (ops/matmul/linear_tail.h), with the
// loss if the model ends there.
#include "models/layers/linear.h"
#include "models/module/output.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class LinearTail : public Fused {
 public:
  explicit LinearTail(std::span<Child> window) : Fused(window) {
    for (size_t i = 0; i < children().size(); i += 2) layers_.push_back(&child<LinearLayer>(i));
  }
  const char* kind() const override { return "linear_tail"; }

 protected:
  Tensor forward(const Tensor& x) override { return forward_for_loss(x); }
  ModelOutput forward_for_loss(const Tensor& x) override {
    std::vector<LinearTailLayer> layers;
    for (LinearLayer* const layer : layers_) layers.push_back(layer->in_tail());
    return {x, std::move(layers)};
  }

 private:
  std::vector<LinearLayer*> layers_;
};
}  // namespace

static const AddRewrite linear_tail_rewrite({
    .name = "fuse.linear_tail",
    .help =
        "three small linear layers with relu between them, and cross-entropy after them, in one "
        "kernel, on a GPU",
    .kinds = {"linear", "relu", "linear", "relu", "linear"},
    .fused = make_fused<LinearTail>,
});

}  // namespace bellows
