// conv2d beyond the generic suite: data cached in a slot, and gradients that are not computed.
#include "ops/conv/conv2d.h"
#include <gtest/gtest.h>
#include <omp.h>
#include "autograd/backward.h"
#include "core/base/philox.h"
#include "core/tensor/copy.h"
#include "core/tensor/foreach.h"
#include "ops/reduce.h"
#include "tests/moved.h"

using namespace bellows;

namespace {

Tensor normal(const Shape& shape, uint64_t seed) {
  const Tensor t(shape, DType::f32);
  const Philox rng({.seed = seed});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = float(rng.normal(i));
  return t;
}

bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(contiguous(a).data<float>(), contiguous(b).data<float>());
}

}  // namespace

// Reordered weights are cached in the slot. An optimizer's update in place must invalidate them.
TEST(Conv2d, SlotKeepsReorderedWeightsUntilTheyAreWritten) {
  if (!kernels::conv2d.has_vendor(Device::cpu)) GTEST_SKIP() << "built without oneDNN";
  const Kernels use({.vendor = true});
  Slot slot;
  const Tensor x = normal({2, 16, 9, 9}, 1), w = normal({16, 16, 3, 3}, 2);
  const auto run = [&] {
    const Moved calls("kernel.vendor_calls");
    const Tensor y = conv2d(x, w, Tensor(), {}, &slot);
    EXPECT_TRUE(same(y, conv2d(x, w, Tensor()))) << "differs from a run without a slot";
    return int64_t(calls);
  };
  const int64_t first = run(), second = run();
  EXPECT_LT(second, first);
  add_into(w, w);
  EXPECT_EQ(run(), first);
}

TEST(Conv2d, SlotServesSeveralShapes) {
  const Kernels use({.vendor = true});
  Slot slot;
  const Tensor w = normal({4, 3, 3, 3}, 2);
  for (int round = 0; round < 2; ++round)
    for (int64_t N = 1; N <= 20; ++N) {  // more shapes than it keeps
      const Tensor x = normal({N, 3, 6, 6}, uint64_t(N));
      EXPECT_TRUE(same(conv2d(x, w, Tensor(), {}, &slot), conv2d(x, w, Tensor()))) << N;
    }
}

TEST(Conv2d, BackwardOutlivesTheLayersSlot) {
  const Kernels use({.vendor = true});
  const Tensor x = normal({2, 3, 6, 6}, 1), w = require_grad(normal({4, 3, 3, 3}, 2));
  const Tensor b = require_grad(normal({4}, 3));
  Tensor y;
  {
    Slot slot;
    y = conv2d(x, w, b, {}, &slot);
  }
  const Tensor loss = record("sum", full({}, 0), {y},
                             [shape = y.shape()](const Tensor&) { return Grads{full(shape, 1)}; });
  backward(loss);
  EXPECT_EQ(grad(b).data<float>()[0], 2 * 4 * 4);
}

TEST(Conv2d, ComputesNoGradientThatNobodyAsksFor) {
  if (!kernels::conv2d.has_vendor(Device::cpu)) GTEST_SKIP() << "built without oneDNN";
  const Kernels use({.vendor = true});
  const auto calls_of_backward = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    const Tensor loss = sum(conv2d(x, w, b));
    const Moved calls("kernel.vendor_calls");
    backward(loss);
    return int64_t(calls);
  };
  const Tensor x = normal({2, 3, 6, 6}, 1), w = normal({4, 3, 3, 3}, 2);
  const Tensor b = require_grad(normal({4}, 3));
  const int64_t all = calls_of_backward(require_grad(x), require_grad(w), b);
  EXPECT_GT(all, calls_of_backward(x, require_grad(w), b));
  EXPECT_EQ(calls_of_backward(x, w, b), 0);
  EXPECT_EQ(grad(b).data<float>()[0], 3 * 2 * 4 * 4) << "of three calls";
}

// vendor_on() declares that forward and dx may run under `deterministic`.
TEST(Conv2d, VendorForwardHasTheSameBitsForAnyNumberOfThreads) {
  const Kernels use({.vendor = true});
  const int before = omp_get_max_threads();
  const Tensor x = normal({5, 16, 14, 14}, 1), w = normal({32, 16, 3, 3}, 2);
  const Tensor dy = normal({5, 32, 12, 12}, 3);
  std::vector<Tensor> y, dx;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    Slot slot;
    y.push_back(kernels::conv2d(x, w, Tensor(), {}, slot));
    dx.push_back(kernels::conv2d_backward_x(dy, w, x.shape(), {}, slot));
    EXPECT_TRUE(same(y[0], y.back())) << threads;
    EXPECT_TRUE(same(dx[0], dx.back())) << threads;
  }
  omp_set_num_threads(before);
}
