// Fuses batch_norm + relu (ops/norm/batch_norm.h).
#include "models/layers/batch_norm.h"
#include "models/module/rewrite.h"

namespace bellows {

static Tensor norm_and_relu(BatchNormLayer& norm, const Tensor& x) { return norm.with_relu(x, {}); }

static const AddRewrite bn_relu({
    .name = "fuse.bn_act",
    .help = "batch_norm + relu in one pass, one bit per element for backward",
    .kinds = {"batch_norm", "relu"},
    .fused = make_fused<FusedInto<"bn_act", BatchNormLayer, norm_and_relu>>,
});

}  // namespace bellows
