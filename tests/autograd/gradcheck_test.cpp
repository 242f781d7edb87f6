#include "autograd/gradcheck.h"
#include <gtest/gtest.h>
#include "ops/elementwise.h"
#include "tests/autograd/leaf.h"

using namespace bellows;

// gradcheck perturbs its inputs in place. Afterwards their version must be newer than that of any
// trial, so that data cached from a trial (such as a copy in another layout) is not reused.
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
