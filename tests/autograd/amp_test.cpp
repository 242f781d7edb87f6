// Autocast: ops that run in 16 bits, dtypes of gradients, and updates of the loss scale.
#include "autograd/amp.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "core/tensor/rng.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/conv_act_pool.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/layer_norm.h"
#include "ops/softmax.h"
#include "optim/optimizer.h"

using namespace bellows;

static Tensor leaf(const Shape& shape, uint64_t site) {
  const Tensor t(shape, DType::f32);
  fill_normal(t, 0, 1, {.seed = 1, .purpose = Purpose::test, .site = site});
  return require_grad(t);
}

TEST(Autocast, ProductsAreLowAndLossesFull) {
  const Tensor x = leaf({4, 8}, 1), w = leaf({6, 8}, 2), b = leaf({6}, 3);
  const Tensor image = leaf({1, 2, 4, 4}, 4), filter = leaf({3, 2, 3, 3}, 5);
  const Tensor labels = tensor_of<int64_t>({0, 1, 2, 3}, {4});
  const Autocast cast(DType::bf16);
  const Tensor y = linear(x, w, b);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(relu(y).dtype(), DType::bf16);
  EXPECT_EQ(softmax(y).dtype(), DType::f32);
  EXPECT_EQ(cross_entropy(y, labels, {}, Impl::fused).dtype(), DType::f32);
  EXPECT_EQ(matmul(x, transposed(w)).dtype(), DType::bf16);
  EXPECT_EQ(conv2d(image, filter, {}).dtype(), DType::bf16);
  EXPECT_EQ(attention(leaf({2, 5, 12}, 6), {}, {.heads = 2}).dtype(), DType::bf16);
  EXPECT_EQ(layer_norm(y, b, b).dtype(), DType::f32);
  EXPECT_EQ(embedding(labels, w).dtype(), DType::f32);
  for (const Impl impl : {Impl::composed, Impl::fused})
    EXPECT_EQ(conv_act_pool(image, filter, leaf({3}, 7), {}, impl).dtype(), DType::f32);
  EXPECT_EQ(add(x, x).dtype(), DType::f32) << "no product: it takes what comes";
}

// In a pass with low_grads, the only gradient of a weight stays as the product wrote it. Sums, and
// what hooks and places see, are f32. Values are those of a pass without.
TEST(Autocast, GradientsOfWeightsMayStayLow) {
  const Tensor x = leaf({16, 8}, 1), one = leaf({6, 8}, 2), two = leaf({6, 8}, 3),
               hooked = leaf({6, 8}, 4), placed = leaf({6, 8}, 5), kept = leaf({6, 8}, 6);
  const std::array leaves{one, two, hooked, placed, kept};
  std::vector<DType> seen;
  on_grad_ready(hooked, [&](const Tensor& g) { seen.push_back(g.dtype()); });
  place_grad(placed, Tensor({6, 8}, DType::f32));
  const Autocast cast(DType::bf16);
  const auto train = [&](bool low_grads) {
    Tensor y = linear(x.detach(), one, {});
    for (const Tensor& w : {two, two, hooked, placed, kept}) y = add(y, linear(x.detach(), w, {}));
    backward(mean(square(amp::full(y))), {.low_grads = low_grads});
  };
  Tensors want;
  for (const bool low_grads : {false, true}) {
    zero_grad(leaves, true);
    train(low_grads);
    for (const Tensor& w : leaves) {
      const bool stays =
          low_grads && (w.storage() == one.storage() || w.storage() == kept.storage());
      EXPECT_EQ(grad(w).dtype(), stays ? DType::bf16 : DType::f32);
    }
    train(low_grads);  // adds up
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Tensor& g = grad(leaves[i]);
      ASSERT_EQ(g.dtype(), DType::f32);
      if (!low_grads) want.push_back(clone(g));
      for (int64_t k = 0; k < g.numel(); ++k)
        EXPECT_EQ(g.ptr<float>()[k], want[i].ptr<float>()[k]) << i;
    }
  }
  EXPECT_THAT(seen, testing::Each(DType::f32));
}

TEST(Autocast, AWeightIsCastOnceUntilItIsWritten) {
  const Tensor x = leaf({4, 8}, 1), w = leaf({6, 8}, 2);
  const Autocast cast(DType::bf16);
  const auto copy = [&] { return amp::to_low(w).storage(); };
  const auto first = copy();
  EXPECT_EQ(copy(), first);
  fill(w, 0.5);
  const Tensor low = amp::to_low(w);
  EXPECT_EQ(float(low.ptr<Bf16>()[0]), 0.5f);
}

// ---- the loss scale

static StepState after(StepState state, std::initializer_list<int> found_inf,
                       const GradScalerOptions& options) {
  for (const int found : found_inf) {
    state.found_inf = found;
    move_scale(state, options);
  }
  return state;
}
static const StepState kStart{.loss_scale = 1024, .inverse_scale = 1.f / 1024};

TEST(LossScale, FallsAtOnceAndGrowsAfterManyGoodUpdates) {
  const GradScalerOptions options{.growth_interval = 3};
  EXPECT_EQ(after(kStart, {1}, options).loss_scale, 512);
  EXPECT_EQ(after(kStart, {0, 0}, options).loss_scale, 1024);
  EXPECT_EQ(after(kStart, {0, 0, 0}, options).loss_scale, 2048);
  EXPECT_EQ(after(kStart, {0, 0, 1, 0, 0}, options).loss_scale, 512) << "counted anew";
  EXPECT_EQ(after(kStart, {0, 0, 0, 0, 0, 0}, options).loss_scale, 4096);
  EXPECT_EQ(after(kStart, {1}, options).inverse_scale, 1.f / 512);
}

// State after a resume with a shorter growth interval: good_updates already exceeds it.
TEST(LossScale, GrowsAfterMoreGoodUpdatesThanItTakes) {
  StepState start = kStart;
  start.good_updates = 10;
  EXPECT_EQ(after(start, {0}, {.growth_interval = 3}).loss_scale, 2048);
}

TEST(LossScale, HasAFloorAndNoInfinity) {
  EXPECT_EQ(after(kStart, {1, 1, 1}, {.min_scale = 256}).loss_scale, 256);
  const GradScalerOptions options{.growth_factor = 1e30, .growth_interval = 1};
  EXPECT_TRUE(std::isfinite(after(kStart, {0, 0, 0}, options).loss_scale));
}

namespace {
// One weight w, with the loss w * x.
struct Tiny {
  explicit Tiny(const GradScalerOptions& options = {})
      : scaler(true, options, state),
        optimizer({.skip_nonfinite = true}, {{"w", w}}, full({1}, 0.5, DType::f64)) {}
  void update(float x) {
    backward(mul(w, full({}, x)), {.loss_scale = state.loss_scale()});
    optimizer.step(state);
    scaler.update();
    optimizer.zero_grad();
  }
  const Tensor w = require_grad(full({}, 3));
  DeviceStepState state{Device::cpu};
  GradScaler scaler;
  Optimizer optimizer;
};
}  // namespace

TEST(GradScaler, ChangesNoUpdateThatIsFiniteAndSkipsAnOverflowWithItsRate) {
  Tiny tiny;
  tiny.update(INFINITY);
  const StepState state = tiny.state.read();
  EXPECT_EQ(tiny.w.item(), 3);
  EXPECT_EQ(state.applied, 0);
  EXPECT_EQ(state.skipped, 1);
  EXPECT_EQ(state.loss_scale, 512);
  tiny.update(2);
  EXPECT_EQ(tiny.w.item(), 3 - 0.5 * 2);
  EXPECT_EQ(tiny.state.read().applied, 1);
  EXPECT_FLOAT_EQ(tiny.state.read().grad_norm, 2);
  EXPECT_EQ(tiny.state.read().found_inf, 0);
}

// 1e-8 rounds to 0 in fp16, whose smallest positive value is 6e-8.
TEST(GradScaler, SavesGradientsThatFp16WouldLose) {
  for (const bool scaled : {false, true}) {
    DeviceStepState state(Device::cpu);
    const GradScaler scaler(scaled, {}, state);
    const Tensor x = full({1, 1}, 1e-4), w = require_grad(full({1, 1}, 1));
    const Autocast cast(DType::f16);
    const Tensor loss = mul(mean(amp::full(linear(x, w, {}))), 1e-4);
    backward(loss, {.loss_scale = state.loss_scale()});
    EXPECT_EQ(grad(w).item() > 0, scaled);
    if (scaled) {
      EXPECT_NEAR(grad(w).item() / 1024, 1e-8, 1e-10);
    }
  }
}
