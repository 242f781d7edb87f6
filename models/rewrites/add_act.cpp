// Fuses shortcut + relu into one pass over memory: the sum is never written.
#include "models/layers/residual.h"
#include "models/module/rewrite.h"
#include "ops/elementwise.h"

namespace bellows {

namespace {
class AddRelu : public Fused {
 public:
  explicit AddRelu(std::span<Child> window) : Fused(window), shortcut_(child<Shortcut>(0)) {}
  const char* kind() const override { return "add_act"; }

 protected:
  Tensor forward(const Tensor& x) override { return add_relu(x, shortcut_.value(x), Impl::fused); }

 private:
  Shortcut& shortcut_;
};
}  // namespace

static const AddRewrite add_act_rewrite({
    .name = "fuse.add_act",
    .help = "shortcut + relu in one pass over memory",
    .kinds = {"shortcut", "relu"},
    .fused = make_fused<AddRelu>,
});

}  // namespace bellows
