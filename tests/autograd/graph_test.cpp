// Tensors that the graph keeps alive, bytes that it saves, and when it releases them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "autograd/backward.h"
#include "ops/elementwise.h"
#include "tests/autograd/leaf.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::HasSubstr;

TEST(Graph, NodesKeepEdgesAndNoTensors) {
  const int64_t before = alive();
  const Tensor x = leaf(1);
  Tensor y = add(relu(x), relu(x));  // add saves nothing, so both of its inputs are released
  EXPECT_EQ(alive() - before, 4) << "x, y, and what each relu saved";
  const Tensor z = exp(y);  // saves z
  y = {};
  EXPECT_EQ(alive() - before, 4) << "x, z, and what each relu saved";
  backward(z);
  EXPECT_EQ(alive() - before, 3) << "x, its gradient and z";
  EXPECT_DOUBLE_EQ(grad(x).item(), 2 * std::exp(2));
}

using Link = Tensor (*)(const Tensor& h, const Tensor& w);
class LongChain : public testing::TestWithParam<Link> {};
INSTANTIATE_TEST_SUITE_P(Of, LongChain,
                         testing::Values([](const Tensor& h, const Tensor& w) { return add(h, w); },
                                         [](const Tensor& h, const Tensor& w) { return mul(w, h); },
                                         [](const Tensor& h, const Tensor&) { return relu(h); },
                                         [](const Tensor& h, const Tensor&) { return mul(h, h); }));

// A release that recurses along the chain would overflow the stack here.
TEST_P(LongChain, IsFreedLinkByLink) {
  for (const bool with_backward : {false, true}) {
    const int64_t before = alive();
    {
      const Tensor w = leaf(1);
      Tensor h = w;
      for (int i = 0; i < 100'000; ++i) h = GetParam()(h, w);
      if (with_backward) backward(h);
    }
    EXPECT_EQ(alive(), before) << (with_backward ? "after backward" : "without backward");
  }
}

TEST(Graph, AnErrorInTheMiddleOfAPassLosesNothing) {
  const int64_t before = alive();
  {
    const Tensor w = leaf(1);
    const Tensor bad = record("bad", relu(w), {w},
                              [](const Tensor&) -> Grads { fail(Exit::internal, "planted"); });
    EXPECT_EQ(refusal([&] { backward(add(exp(w), bad)); }), "planted");
    backward(relu(w));
    EXPECT_EQ(grad(w).item(), 1) << "the shares of the broken pass are forgotten";
  }
  EXPECT_EQ(alive(), before);
}

// ---- saved tensors

TEST(Saved, CountsEachStorageOnceAndNoParameter) {
  const Tensor w = require_grad(full({100}, 2)), x = full({100}, 3);
  const Moved saved("mem.saved_bytes");
  const Tensor y = mul(x, w);  // saves x; w is a parameter, which is not counted
  EXPECT_EQ(saved, 400);
  const Tensor z = mul(x, y);  // saves x again, and y
  EXPECT_EQ(saved, 800);
}

TEST(Saved, NoticesThatItWasWrittenInPlace) {
  const Tensor w = leaf(2), x = scalar(3), y = mul(x, w);
  fill(x, 4);
  EXPECT_EQ(
      refusal([&] { backward(y); }),
      "backward: a tensor of shape [1] that was saved for it has been written in place since");
  const Tensor z = mul(leaf(5), w);
  add_into(w, scalar(1));
  EXPECT_THAT(refusal([&] { backward(z); }), HasSubstr("written in place")) << "a parameter, too";
}
