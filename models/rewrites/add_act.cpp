// Fuses shortcut + relu into one pass over memory: the sum is never written.
#include "models/layers/residual.h"
#include "models/module/rewrite.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor add_and_relu(Shortcut& shortcut, const Tensor& x) {
  return add_relu(x, shortcut.value(x), Impl::fused);
}

static const AddRewrite add_act_rewrite({
    .name = "fuse.add_act",
    .help = "shortcut + relu in one pass over memory",
    .kinds = {"shortcut", "relu"},
    .fused = make_fused<FusedInto<"add_act", Shortcut, add_and_relu>>,
});

}  // namespace bellows
