// Fuses linear + relu: the product's epilogue applies bias and activation (ops/matmul/linear.h).
#include "models/layers/linear.h"
#include "models/module/rewrite.h"

namespace bellows {

static const AddRewrite bias_act_rewrite({
    .name = "fuse.bias_act",
    .help = "linear + relu: bias and activation in the product's epilogue",
    .kinds = {"linear", "relu"},
    .fused = make_fused<FusedInto<"bias_act", LinearLayer, &LinearLayer::with_relu>>,
});

}  // namespace bellows
