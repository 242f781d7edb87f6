// Fuses batch_norm + relu and batch_norm + gelu (ops/norm/batch_norm.h).
#include "models/layers/batch_norm.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class BatchNormAct : public Fused {
 public:
  explicit BatchNormAct(std::span<Child> window)
      : Fused(window), norm_(child<BatchNormLayer>(0)), gelu_(is_kind(children()[1], "gelu")) {}
  const char* kind() const override { return "bn_act"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return gelu_ ? norm_.with_gelu(x) : norm_.with_relu(x, {});
  }

 private:
  BatchNormLayer& norm_;
  const bool gelu_;
};
}  // namespace

static const AddRewrite bn_act_rewrite({
    .name = "fuse.bn_act",
    .help = "batch_norm + relu or gelu in one pass; for backward, relu saves one bit per element",
    .kinds = {"batch_norm", ""},
    .matches =
        [](std::span<Child> window) {
          return is_kind(window[1], "relu") || is_kind(window[1], "gelu");
        },
    .fused = make_fused<BatchNormAct>,
});

}  // namespace bellows
