// Fuses conv2d + relu + max_pool2d of 2x2 windows into one op (ops/conv/conv_act_pool.h).
#include "ops/conv/conv_act_pool.h"
#include "models/layers/conv2d.h"
#include "models/layers/pool.h"
#include "models/module/rewrite.h"

namespace bellows {

namespace {
class ConvActPool : public Fused {
 public:
  explicit ConvActPool(std::span<Child> window) : Fused(window), conv_(child<Conv2dLayer>(0)) {
    conv_.store_in_nchw();
  }
  const char* kind() const override { return "conv_act_pool"; }

 protected:
  Tensor forward(const Tensor& x) override {
    return conv_act_pool(x, conv_.weight(), conv_.bias(), conv_.options().padding, Impl::fused);
  }

 private:
  Conv2dLayer& conv_;
};
}  // namespace

static bool matches_conv_act_pool(std::span<Child> window) {
  const auto& conv = dynamic_cast<Conv2dLayer&>(*window[0].module).options();
  const auto& pool = dynamic_cast<MaxPoolLayer&>(*window[2].module).options();
  return conv.stride == 1 && conv.bias && pool.kernel == 2 && pool.stride == 2 && pool.padding == 0;
}

static const AddRewrite conv_act_pool_rewrite({
    .name = "fuse.conv_act_pool",
    .help = "conv2d + relu + max_pool2d in one kernel; on a CPU the batch is in the vector lanes",
    .kinds = {"conv2d", "relu", "max_pool2d"},
    .matches = matches_conv_act_pool,
    .fused = make_fused<ConvActPool>,
});

}  // namespace bellows
