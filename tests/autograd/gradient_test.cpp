// Storage of gradients: a buffer of their own, or a slot in a bucket (place_grad).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "core/tensor/copy.h"
#include "ops/elementwise.h"
#include "tests/autograd/leaf.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;

TEST(Gradient, ThatSomebodyElseHoldsIsCopied) {
  const Tensor w = leaf(1);
  Tensor kept;
  const Tensor y = record("keep", relu(w), {w}, [&](const Tensor& dy) {
    kept = clone(dy);
    return Grads{kept};
  });
  backward(y);
  fill(grad(w), 7);
  EXPECT_EQ(kept.item(), 1);
}

TEST(Gradient, IsContiguousWhateverTheShareWas) {
  const Tensor w = require_grad(full({2, 3}, 1));
  const Tensor y = record("turn", full({1}, 1), {w}, [](const Tensor&) {
    return Grads{tensor_of<float>({0, 1, 2, 3, 4, 5}, {3, 2}).view({2, 3}, {1, 2}, 0)};
  });
  backward(y);
  EXPECT_THAT(grad(w).data<float>(), testing::ElementsAre(0, 2, 4, 1, 3, 5));
}

class Placed : public testing::Test {
 protected:
  Placed() {
    for (int i = 0; i < 2; ++i) place_grad(leaves[i], bucket.view({1}, {1}, i));
  }
  // Returns the gradients, after a check that they lie in the bucket.
  std::pair<double, double> grads() const {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(grad(leaves[i]).storage(), bucket.storage());
      EXPECT_EQ(grad(leaves[i]).offset(), i);
    }
    return {bucket.data<double>()[0], bucket.data<double>()[1]};
  }

  const Tensor bucket = full({2}, -1, DType::f64);
  const std::array<Tensor, 2> leaves{leaf(1), leaf(2)};
};

TEST_F(Placed, OneOpMayUseALeafTwice) {
  backward(add(leaves[0], mul(leaves[1], leaves[1])));
  EXPECT_EQ(grads(), std::pair(1.0, 4.0));
}

TEST_F(Placed, PassesAddUpUntilZeroGrad) {
  const auto pass = [&] { backward(add(leaves[0], mul(leaves[1], scalar(2)))); };
  for (const bool set_to_none : {true, false}) {
    pass();
    pass();
    EXPECT_EQ(grads(), std::pair(2.0, 4.0));
    zero_grad(leaves, set_to_none);
    EXPECT_EQ(grad(leaves[0]).defined(), !set_to_none);
  }
  pass();
  EXPECT_EQ(grads(), std::pair(1.0, 2.0));
}

TEST_F(Placed, HasToFit) {
  EXPECT_EQ(refusal([&] { place_grad(leaves[0], bucket); }),
            "place_grad(): a place of [2] in f64 for a leaf of [1] in f64");
  EXPECT_EQ(refusal([&] { place_grad(leaves[0], full({1}, 0)); }),
            "place_grad(): a place of [1] in f32 for a leaf of [1] in f64");
}

TEST(Gradient, IsALeafs) {
  const Tensor plain = scalar(1), made = relu(leaf(1));
  for (const Tensor& t : {plain, made}) {
    EXPECT_EQ(refusal([&] { zero_grad({&t, 1}, true); }), "zero_grad(): not a leaf");
    EXPECT_EQ(refusal([&] { place_grad(t, {}); }), "place_grad(): not a leaf");
  }
}

TEST(ZeroGrad, DropsOrWritesZerosAndCountsWhich) {
  const Moved dropped("grad.dropped"), memsets("grad.memsets");
  const std::vector<Tensor> leaves{leaf(1), leaf(2), leaf(3)};
  backward(add(leaves[0], leaves[1]));  // the third has no gradient
  zero_grad(leaves, false);
  EXPECT_EQ(memsets, 2);
  EXPECT_EQ(grad(leaves[0]).item(), 0);
  zero_grad(leaves, true);
  EXPECT_EQ(dropped, 2);
  EXPECT_FALSE(grad(leaves[0]).defined());
}
