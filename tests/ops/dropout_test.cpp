// dropout beyond the generic suite: its rate, the parts of its random key, recomputation.
#include "ops/dropout.h"
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "autograd/recompute.h"
#include "core/base/module_path.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "tests/moved.h"

using namespace bellows;

static constexpr int64_t kN = 100000;

static Tensor mask(uint64_t seed, const DeviceStepState& state, const char* path = "") {
  const ModuleScope at(site_of(path));
  return dropout(full({kN}, 1), 0.3, seed, state);
}
static double share_equal(const Tensor& a, const Tensor& b) {
  int64_t equal = 0;
  for (int64_t i = 0; i < kN; ++i) equal += a.data<float>()[i] == b.data<float>()[i];
  return double(equal) / kN;
}

// The kept elements are scaled, so that the mean stays.
TEST(Dropout, DropsWhereTheUniformNumberOfTheElementIsBelowP) {
  const DeviceStepState state(Device::cpu);
  const Tensor y = mask(1, state);
  const ModuleScope at(site_of(""));
  const Philox rng({.seed = 1, .purpose = Purpose::dropout, .site = current_site()->hash});
  for (int64_t i = 0; i < kN; ++i)
    ASSERT_FLOAT_EQ(y.data<float>()[i], rng.uniform(i) < 0.3 ? 0 : float(1 / 0.7)) << i;
}

// Independent masks agree in 0.7^2 + 0.3^2 = 58 % of the elements.
TEST(Dropout, SeedStepAndPlaceEachDrawAnotherMask) {
  const DeviceStepState first(Device::cpu), second(Device::cpu);
  second.get()->forwards = 1;
  const Tensor y = mask(1, first, "a");
  EXPECT_EQ(share_equal(y, mask(1, first, "a")), 1);
  EXPECT_NEAR(share_equal(y, mask(2, first, "a")), 0.58, 0.01);
  EXPECT_NEAR(share_equal(y, mask(1, second, "a")), 0.58, 0.01);
  EXPECT_NEAR(share_equal(y, mask(1, first, "b")), 0.58, 0.01);
}

TEST(Dropout, SavesNothingButTheStep) {
  const DeviceStepState state(Device::cpu);
  const Moved saved("mem.saved_bytes");
  dropout(require_grad(full({kN}, 1)), 0.3, 1, state);
  EXPECT_EQ(saved, 8);
}

TEST(Dropout, TheMaskBelongsToTheElementNotToItsPlaceInMemory) {
  const DeviceStepState state(Device::cpu);
  const Tensor x = full({2, 3, 4, 5}, 1), y = dropout(x, 0.5, 1, state);
  const Tensor z = dropout(contiguous(x, kNHWC), 0.5, 1, state);
  EXPECT_TRUE(std::ranges::equal(contiguous(z).data<float>(), y.data<float>()));
}

// Two masks in a segment and one in a nested one. Backward runs after another step began.
TEST(Dropout, RunsAgainWithTheMasksOfItsForward) {
  const DeviceStepState state(Device::cpu);
  const auto at = [&](const char* path, const Tensor& x) {
    const ModuleScope here(site_of(path));
    return dropout(x, 0.3, 1, state);
  };
  const auto gradients = [&](bool again) {
    const auto run = [&](const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) {
      return again ? recompute(fn, x, {}) : fn(x);
    };
    const auto inner = [&](const Tensor& x) { return at("b", x); };
    const auto outer = [&](const Tensor& x) { return at("c", run(inner, at("a", x))); };
    state.get()->forwards = 3;
    const Tensor x = require_grad(full({kN}, 1)), y = run(outer, x);
    const Tensor loss =
        record("sum", full({}, 0), {y}, [](const Tensor&) { return Grads{full({kN}, 1)}; });
    state.get()->forwards = 4;  // as in another forward pass
    backward(loss, {.retain_graph = true});
    EXPECT_EQ(share_equal(grad(x), y), 1);
    backward(loss);
    return std::pair(y, grad(x));
  };
  const auto [y, dx] = gradients(false);
  const auto [y_again, dx_again] = gradients(true);
  EXPECT_EQ(share_equal(y, y_again), 1);
  EXPECT_EQ(share_equal(dx, dx_again), 1);
}
