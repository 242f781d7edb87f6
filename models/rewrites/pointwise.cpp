// Runs a pointwise layer in one pass over memory instead of one pass per function.
#include "models/layers/pointwise.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class FusedPointwise : public Fused {
 public:
  explicit FusedPointwise(std::span<Child> window)
      : Fused(window), layer_(child<PointwiseLayer>(0)) {}
  const char* kind() const override { return "fused_pointwise"; }

 protected:
  Tensor forward(const Tensor& x) override { return layer_.run(x, Impl::fused); }

 private:
  PointwiseLayer& layer_;
};
}  // namespace

static const AddRewrite pointwise_rewrite({
    .name = "fuse.pointwise",
    .help = "each pointwise layer in one kernel, which is compiled for it on a GPU",
    .kinds = {"pointwise"},
    .fused = make_fused<FusedPointwise>,
});

}  // namespace bellows
