// Runs a pointwise layer in one pass over memory instead of one pass per function.
#include "models/layers/pointwise.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class FusedPointwise : public Fused {
 public:
  using Fused::Fused;
  const char* kind() const override { return "fused_pointwise"; }

 protected:
  Tensor forward(const Tensor& x) override { return child<PointwiseLayer>(0).run(x, Impl::fused); }
};
}  // namespace

static const AddRewrite pointwise_rewrite({
    .name = "fuse.pointwise",
    .help = "each pointwise layer in one kernel, which is compiled for it on a GPU",
    .kinds = {"pointwise"},
    .fused = make_fused<FusedPointwise>,
});

}  // namespace bellows
