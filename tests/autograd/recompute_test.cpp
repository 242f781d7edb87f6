// Recomputed segments: nesting, and uses that are refused because gradients would be wrong.
#include "autograd/recompute.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "ops/elementwise.h"
#include "tests/autograd/leaf.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::HasSubstr;

static Tensor segment(const Tensor& x, const Tensor& w) {
  return recompute([w](const Tensor& in) { return mul(in, w); }, x, {{w}});
}

TEST(Recompute, OfASegmentInASegmentIsItsGradient) {
  const Tensor x = leaf(2), v = leaf(3), w = leaf(5);
  const auto outer = [&](const Tensor& in) { return mul(segment(in, w), v); };
  const Tensor y = recompute(outer, x, {{v, w}});
  for (int pass = 1; pass <= 2; ++pass) {
    backward(y, {.retain_graph = pass == 1});
    EXPECT_EQ(grad(x).item(), pass * 15);
    EXPECT_EQ(grad(v).item(), pass * 10);
    EXPECT_EQ(grad(w).item(), pass * 6);
  }
}

TEST(Recompute, RefusesAParameterThatWasWrittenSince) {
  const Tensor w = leaf(3), y = segment(leaf(2), w);
  w.raise_version();
  EXPECT_THAT(refusal([&] { backward(y); }), HasSubstr("has been written in place since"));
}

TEST(Recompute, RefusesAParameterThatIsReadOutsideOfIt) {
  const auto refused = HasSubstr("recompute: a parameter of shape [1] is read outside");
  const Tensor w = leaf(3);
  EXPECT_THAT(refusal([&] { backward(segment(mul(leaf(2), w), w)); }), refused) << "before";
  EXPECT_THAT(refusal([&] { backward(mul(segment(leaf(2), w), w)); }), refused) << "behind";
  EXPECT_THAT(refusal([&] { backward(segment(segment(leaf(2), w), w)); }), refused) << "another";
}
