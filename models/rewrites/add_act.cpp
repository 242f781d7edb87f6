// Fuses shortcut + relu into one pass over memory: the sum is never written.
#include "models/layers/residual.h"
#include "models/module/rewrite.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {
class AddRelu : public Fused {
 public:
  using Fused::Fused;
  const char* kind() const override { return "add_act"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return add_relu(x, child<Shortcut>(0).value(x), Impl::fused);
  }
};
}  // namespace

static const AddRewrite add_act_rewrite({
    .name = "fuse.add_act",
    .help = "shortcut + relu in one pass over memory",
    .kinds = {"shortcut", "relu"},
    .fused = make_fused<AddRelu>,
});

}  // namespace bellows
