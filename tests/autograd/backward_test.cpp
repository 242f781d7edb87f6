// Backward passes: hooks, order, kernel options, gradient modes, refused calls.
#include "autograd/backward.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include "core/tensor/step_state.h"
#include "ops/elementwise.h"
#include "tests/autograd/leaf.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::StartsWith;

// ---- hooks

TEST(Hooks, FireOnceOnTheFinalGradientAndAsEarlyAsTheyCan) {
  const Tensor w1 = leaf(1), w2 = leaf(2), w3 = leaf(3);
  std::string fired;
  for (const auto& [name, w] : {std::pair{"w1", w1}, {"w2", w2}, {"w3", w3}})
    on_grad_ready(
        w, [&fired, name = name](const Tensor& g) { fired += cat(name, "=", g.item(), " "); });
  // w1 is used first and third, so it is not final before w2.
  backward(add(relu(add(add(relu(w1), w2), w1)), w3));
  EXPECT_EQ(fired, "w3=1 w2=1 w1=2 ");
}

// A hook waits for the consumers in its own pass only, not for those of an earlier pass or of a
// branch that never runs.
TEST(Hooks, CountTheConsumersOfTheirOwnPass) {
  const Tensor w = leaf(1);
  int fired = 0;
  on_grad_ready(w, [&](const Tensor&) { ++fired; });
  const Tensor early = relu(w), never = relu(w);
  backward(relu(w));
  const Tensor late = relu(w);
  backward(add(late, early));
  EXPECT_EQ(fired, 2);
  EXPECT_EQ(grad(w).item(), 3);
}

// An op may return an undefined gradient for an input. It counts as a contribution, or the hook
// would wait forever.
TEST(Hooks, AnUndefinedGradientIsAShare) {
  const Tensor w = leaf(2);
  int fired = 0;
  on_grad_ready(w, [&](const Tensor&) { ++fired; });
  const Tensor stopped =
      record("stop", relu(w), {relu(w)}, [](const Tensor&) { return Grads{Tensor()}; });
  backward(add(stopped, w));
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(grad(w).item(), 1);
}

// ---- passes

TEST(Backward, AGraphServesOnePassUnlessRetained) {
  const Tensor w = leaf(1), shared = relu(w), loss = add(shared, shared);
  backward(loss, {.retain_graph = true});
  backward(loss);
  EXPECT_EQ(grad(w).item(), 4);
  const std::string expected = "backward(): an earlier pass has released ";
  EXPECT_EQ(refusal([&] { backward(loss); }),
            expected + "add; give that one {.retain_graph = true}");
  // Checked before the pass, so the new half of the graph accumulates no gradient.
  EXPECT_THAT(refusal([&] { backward(add(relu(w), shared)); }), StartsWith(expected + "relu"));
  EXPECT_EQ(grad(w).item(), 4);
}

TEST(Backward, StartsFromAScalarWithHistory) {
  EXPECT_EQ(refusal([] { backward(require_grad(full({2}, 1))); }),
            "backward() starts from a scalar, got [2]");
  EXPECT_EQ(refusal([] { backward(scalar(1)); }),
            "backward(): nothing upstream of this tensor requires grad");
  const Tensor w = leaf(3);
  backward(w);
  EXPECT_EQ(grad(w).item(), 1) << "a leaf is its own loss";
}

TEST(Backward, ScalesByTheLossScaleAndLeavesItAlone) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double seed : {1.0, 0.25}) {
      DeviceStepState state(Device::cpu);
      state.write({.loss_scale = 8});
      const Tensor w = require_grad(full({1}, 3, dtype));
      backward(w, {.seed = seed, .loss_scale = state.loss_scale()});
      EXPECT_EQ(grad(w).item(), 8 * seed);
      fill(grad(w), 0);
      EXPECT_EQ(state.read().loss_scale, 8) << "a gradient in the memory of the scale";
    }
}

// Contributions arrive in the reverse order of the forward pass and are summed in that order.
TEST(Backward, SumsSharesInAFixedOrder) {
  const Tensor w = leaf(1);
  const auto times = [&](double factor) { return mul(w, scalar(factor)); };
  const Tensor a = times(1), b = times(1e16), c = times(-1e16);
  backward(add(add(a, b), c));
  EXPECT_EQ(grad(w).item(), 1) << "(-1e16 + 1e16) + 1; in the order of the forward it is 0";
}

TEST(Backward, NamesTheOpWhoseGradientHasTheWrongShape) {
  const Tensor w = leaf(3);
  const Tensor y = record("twist", relu(w), {w}, [](const Tensor&) { return Grads{full({2}, 1)}; });
  EXPECT_EQ(refusal([&] { backward(y); }), "twist: gradient has shape [2], its input [1]");
}

TEST(Backward, RunsUnderTheKernelsAndAtTheModuleOfItsForward) {
  const Tensor w = leaf(1);
  KernelOptions seen;
  std::string path;
  bool recording = true;
  Tensor y;
  {
    const Kernels use({.vendor = true, .deterministic = true});
    const ModuleScope at(site_of("layer1.conv2"));
    y = record("look", relu(w), {w}, [&](const Tensor& dy) {
      seen = kernel_options();
      path = current_site()->path;
      recording = will_record(w);
      return Grads{dy};
    });
  }
  const Kernels other({.tf32 = true});
  backward(y);
  EXPECT_EQ(seen, (KernelOptions{.vendor = true, .deterministic = true}));
  EXPECT_EQ(path, "layer1.conv2");
  EXPECT_FALSE(recording);
  EXPECT_EQ(kernel_options(), KernelOptions{.tf32 = true}) << "restored after the pass";
  EXPECT_EQ(current_site()->path, "");
}

// ---- modes

TEST(NoGrad, RecordsNothingOnItsThreadOnly) {
  const Moved nodes("graph.nodes");
  const Tensor w = leaf(1);
  {
    const NoGrad outer;
    { const NoGrad inner; }
    EXPECT_FALSE(needs_grad(relu(w))) << "the inner guard restores what it found";
    EXPECT_FALSE(will_record(w));
    std::thread([&] { EXPECT_TRUE(will_record(w)); }).join();
    EXPECT_EQ(nodes, 0);
  }
  EXPECT_TRUE(needs_grad(relu(w)));
  EXPECT_EQ(nodes, 1);
}

TEST(Leaf, OnlyFloatsHaveGradientsAndOnlyLeavesCollectThem) {
  EXPECT_EQ(refusal([] { require_grad(full({1}, 1, DType::i64)); }),
            "require_grad: a i64 tensor has no gradient");
  const Tensor y = relu(leaf(1));
  EXPECT_EQ(refusal([&] { grad(y); }), "grad(): not a leaf");
  EXPECT_EQ(refusal([&] { on_grad_ready(y, {}); }), "on_grad_ready(): not a leaf");
  EXPECT_FALSE(needs_grad(y.detach()));
}

TEST(AllFinite, FindsOneBadElementOfAnyKind) {
  for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    const Tensor t = full({100'000}, 1);
    EXPECT_TRUE(all_finite(t));
    t.data<float>()[77'777] = float(bad);
    EXPECT_FALSE(all_finite(t)) << bad;
    EXPECT_TRUE(all_finite(t.view({100}, {1}, 0)));
  }
}

class AnomalyMode : public testing::Test {
 protected:
  AnomalyMode() { anomaly() = {.on = true, .step = 42}; }
  ~AnomalyMode() override { anomaly() = {}; }
};

TEST_F(AnomalyMode, NamesOpModuleInputAndStep) {
  const Tensor w = leaf(0);
  Tensor y;
  {
    const ModuleScope at(site_of("head.log"));
    y = mul(scalar(0), log(w));  // 0 * dlog(0) = 0 * inf
  }
  const Refusal refusal = refused([&] { backward(y); });
  EXPECT_EQ(refusal.exit, Exit::numeric);
  EXPECT_EQ(refusal.message,
            "anomaly: log in module 'head.log' gave input 0 a gradient that is not finite, at step "
            "42");
}

TEST(Anomaly, OffLooksAtNothing) {
  const Tensor w = leaf(0);
  backward(mul(scalar(0), log(w)));
  EXPECT_TRUE(std::isnan(grad(w).item()));
}
