// Fuses batch_norm + relu and batch_norm + gelu (ops/norm/batch_norm.h).
#include "models/layers/batch_norm.h"
#include "models/module/rewrite.h"

namespace bellows {

static Tensor norm_and_relu(BatchNormLayer& norm, const Tensor& x) { return norm.with_relu(x, {}); }

template <auto run> static AddRewrite bn_and(std::string_view act) {
  return AddRewrite({.name = "fuse.bn_act",
                     .help = "batch_norm + relu or gelu in one pass; for backward, relu saves one "
                             "bit per element",
                     .kinds = {"batch_norm", act},
                     .fused = make_fused<FusedInto<"bn_act", BatchNormLayer, run>>});
}

static const AddRewrite bn_relu = bn_and<norm_and_relu>("relu");
static const AddRewrite bn_gelu = bn_and<&BatchNormLayer::with_gelu>("gelu");

}  // namespace bellows
