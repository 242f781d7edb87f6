// Runs a pointwise layer in one pass over memory instead of one pass per function.
#include "models/layers/pointwise.h"
#include "models/module/rewrite.h"

namespace bellows {

static Tensor run_fused(const PointwiseLayer& layer, const Tensor& x) {
  return layer.run(x, Impl::fused);
}

static const AddRewrite pointwise_rewrite({
    .name = "fuse.pointwise",
    .help = "each pointwise layer in one kernel, which is compiled for it on a GPU",
    .kinds = {"pointwise"},
    .fused = make_fused<FusedInto<"fused_pointwise", PointwiseLayer, run_fused>>,
});

}  // namespace bellows
