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
  Tensor forward(const Tensor& x) override {
    BatchNormLayer* const last = last_norm();
    const bool both = last && norm_.takes_statistics() && last->takes_statistics();
    if (!both || !kernels::streams_norms(x)) return norm_.with_relu(x, shortcut_.value(x));
    const Tensor other = shortcut_.before_last();
    if (other.dtype() != x.dtype()) return norm_.with_relu(x, shortcut_.last(other, x));
    return batch_norms_relu(x, norm_.norm(), other, last->norm(), Impl::fused);
  }

 private:
  // Norm at the end of the shortcut; null if there is none, or if ranks share statistics.
  BatchNormLayer* last_norm() const {
    if (shortcut_.children().empty() || norm_.synchronized()) return nullptr;
    return dynamic_cast<BatchNormLayer*>(shortcut_.children().back().module.get());
  }

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
