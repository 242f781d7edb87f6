// Fuses batch_norm + shortcut + relu, the end of a residual block (ops/norm/batch_norm.h).
#include "models/layers/batch_norm.h"
#include "models/layers/residual.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class BatchNormAddRelu : public Fused {
 public:
  explicit BatchNormAddRelu(std::span<Child> window)
      : Fused(window), norm_(child<BatchNormLayer>(0)), shortcut_(child<Shortcut>(1)) {}
  const char* kind() const override { return "bn_add_act"; }

 protected:
  Tensor forward(const Tensor& x) override { return norm_.with_relu(x, shortcut_.value(x)); }

 private:
  BatchNormLayer& norm_;
  Shortcut& shortcut_;
};
}  // namespace

static const AddRewrite bn_add_act_rewrite({
    .name = "fuse.bn_add_act",
    .help = "batch_norm + shortcut + relu in one pass, one bit per element for backward",
    .kinds = {"batch_norm", "shortcut", "relu"},
    .fused = make_fused<BatchNormAddRelu>,
});

}  // namespace bellows
