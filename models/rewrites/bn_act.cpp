// Fuses batch_norm + relu (ops/norm/batch_norm.h).
#include "models/layers/batch_norm.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class BatchNormRelu : public Fused {
 public:
  explicit BatchNormRelu(std::span<Child> window)
      : Fused(window), norm_(child<BatchNormLayer>(0)) {}
  const char* kind() const override { return "bn_act"; }

 protected:
  Tensor forward(const Tensor& x) override { return norm_.with_relu(x, {}); }

 private:
  BatchNormLayer& norm_;
};
}  // namespace

static const AddRewrite entry({
    .name = "fuse.bn_act",
    .help = "batch_norm + relu in one pass, a bit an element for backward",
    .length = 2,
    .matches =
        [](std::span<Child> window) {
          return is<BatchNormLayer>(window[0]) && is_kind(window[1], "relu");
        },
    .fused = make_fused<BatchNormRelu>,
});

}  // namespace bellows
