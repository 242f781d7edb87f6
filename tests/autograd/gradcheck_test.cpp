#include "autograd/gradcheck.h"
#include <gtest/gtest.h>
#include "ops/elementwise.h"
#include "tests/autograd/leaf.h"

using namespace bellows;

// What an op has derived from an input, such as a copy in another order, must not stay as of a
// trial.
TEST(Gradcheck, LeavesInputsOfAVersionThatNoTrialHad) {
  const Tensor x = leaf(2);
  uint32_t last = 0;
  const auto square = [&](const std::vector<Tensor>& in) {
    last = in[0].storage()->version;
    return mul(in[0], in[0]);
  };
  EXPECT_EQ(gradcheck("square", square, {x}), "");
  EXPECT_EQ(x.item(), 2);
  EXPECT_GT(x.storage()->version, last);
}
