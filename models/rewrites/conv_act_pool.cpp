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
    return conv_act_pool(x, conv_.weight(), conv_.bias(), {.padding = conv_.options().padding},
                         Impl::fused);
  }

 private:
  Conv2dLayer& conv_;
};
}  // namespace

static bool matches_conv_act_pool(std::span<Child> window) {
  const auto* const conv = dynamic_cast<Conv2dLayer*>(window[0].module.get());
  const auto* const pool = dynamic_cast<PoolLayer*>(window[2].module.get());
  if (!conv || !pool || !is_kind(window[1], "relu")) return false;
  return conv->options().stride == 1 && conv->options().bias && is_kind(window[2], "max_pool2d") &&
         pool->options().kernel == 2 && pool->options().stride == 2 && pool->options().padding == 0;
}

static const AddRewrite conv_act_pool_rewrite({
    .name = "fuse.conv_act_pool",
    .help = "conv2d + relu + max_pool2d in one kernel; on a CPU the batch is in the vector lanes",
    .length = 3,
    .matches = matches_conv_act_pool,
    .fused = make_fused<ConvActPool>,
});

}  // namespace bellows
