// What the graph keeps alive, when it lets go, and when a leaf's gradient is final.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include "autograd/backward.h"
#include "core/copy.h"
#include "core/foreach.h"
#include "core/trace.h"
#include "ops/elementwise.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::HasSubstr;
using testing::StartsWith;

// Tensors of one double fill one block of the allocator's smallest size.
static int64_t alive() { return allocator_stats(Device::cpu).allocated / 64; }

static Tensor scalar(double value) { return full({1}, value, DType::f64); }
static Tensor leaf(double value) { return require_grad(scalar(value)); }

// ---- what stays alive

TEST(Graph, NodesKeepEdgesAndNoTensors) {
  const int64_t before = alive();
  const Tensor x = leaf(1);
  Tensor y = add(relu(x), relu(x));  // add saves nothing: both of its inputs are gone
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

// Every release that recurses along the chain ends in a stack overflow here.
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

// ---- what is saved

static int64_t saved_bytes() { return trace::counter("mem.saved_bytes").value(); }

TEST(Saved, CountsEachStorageOnceAndNoParameter) {
  const Tensor w = require_grad(full({100}, 2)), x = full({100}, 3);
  const int64_t before = saved_bytes();
  const Tensor y = mul(x, w);  // keeps x; w lives anyway
  EXPECT_EQ(saved_bytes() - before, 400);
  const Tensor z = mul(x, y);  // keeps x again, and y
  EXPECT_EQ(saved_bytes() - before, 800);
}

TEST(Saved, IsCountedAgainInTheNextStep) {
  const Tensor w = require_grad(full({100}, 2)), x = full({100}, 3);
  const int64_t before = saved_bytes();
  for (int step = 1; step <= 3; ++step) {
    mul(x, w);
    EXPECT_EQ(saved_bytes() - before, 400 * step);
  }
}

TEST(Saved, IsNothingUnderNoGrad) {
  const Tensor w = require_grad(full({100}, 2)), x = full({100}, 3);
  const int64_t before = saved_bytes();
  const NoGrad guard;
  exp(mul(x, w));
  const Saved left_over(x);
  EXPECT_EQ(saved_bytes(), before);
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

TEST(Saved, ACopyKnowsWhatTheFirstOneKnew) {
  const Tensor x = scalar(3);
  const Saved first(x);
  fill(x, 4);
  const Saved second = first;
  EXPECT_THAT(refusal([&] { second(); }), HasSubstr("written in place"));
}

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

// The consumers in this pass count: not those of one that ran before, nor of one that never runs.
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

// An op may have no gradient for an input; whoever waits for it must not wait for ever.
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

TEST(Hooks, DoNotFireForALeafWithoutAGradient) {
  const Tensor w = leaf(2), v = leaf(1);
  int fired = 0;
  on_grad_ready(w, [&](const Tensor&) { ++fired; });
  const Tensor stopped =
      record("stop", relu(w), {w}, [](const Tensor&) { return Grads{Tensor()}; });
  backward(add(stopped, v));
  EXPECT_EQ(fired, 0);
  EXPECT_FALSE(grad(w).defined());
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
  // Found in front of the pass: the half of the graph that is new leaves no gradient behind.
  EXPECT_THAT(refusal([&] { backward(add(relu(w), shared)); }), StartsWith(expected + "relu"));
  EXPECT_EQ(grad(w).item(), 4);
}

TEST(Backward, APlainPassReleasesWhatARetainedOneKeeps) {
  const Tensor w = leaf(1);
  const int64_t before = alive();
  const Tensor loss = exp(exp(exp(w)));
  backward(loss, {.retain_graph = true});
  EXPECT_EQ(alive() - before, 4) << "three results, all saved, and the gradient";
  backward(loss);
  EXPECT_EQ(alive() - before, 2) << "the loss, which is held here, and the gradient";
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

TEST(Backward, ScalesByItsSeed) {
  const Tensor w = leaf(3);
  backward(mul(w, w), {.seed = 0.25});
  EXPECT_EQ(grad(w).item(), 1.5);
}

// Shares come in the reverse order of the forward pass and are summed as they come.
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
    const AtSite at(site_of("layer1.conv2"));
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

// ---- where gradients land

TEST(Gradient, TwoLeavesNeverShareOne) {
  const Tensor a = leaf(1), b = leaf(2);
  backward(add(a, b));  // hands the same dy to both
  scale_each({&grad(a), 1}, 10);
  EXPECT_EQ(grad(a).item(), 10);
  EXPECT_EQ(grad(b).item(), 1);
}

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

TEST(Gradient, OfNobodyElseIsTakenOver) {
  const Tensor w = leaf(1);
  const std::byte* made = nullptr;
  const Tensor y = record("make", relu(w), {w}, [&](const Tensor& dy) {
    const Tensor dx = clone(dy);
    made = dx.bytes();
    return Grads{dx};
  });
  backward(y);
  EXPECT_EQ(grad(w).bytes(), made);
}

TEST(Gradient, IsContiguousWhateverTheShareWas) {
  const Tensor w = require_grad(full({2, 3}, 1));
  const Tensor y = record("turn", full({1}, 1), {w}, [](const Tensor&) {
    return Grads{tensor_of<float>({0, 1, 2, 3, 4, 5}, {3, 2}).view({2, 3}, {1, 2}, 0)};
  });
  backward(y);
  EXPECT_THAT(grad(w).data<float>(), testing::ElementsAre(0, 2, 4, 1, 3, 5));
}

// An op that writes the gradients of both inputs where they are wanted: y = a + 2 b.
static Tensor placing(const Tensor& a, const Tensor& b) {
  const NoGrad guard;
  const Tensor y = add(a, mul(b, scalar(2)));
  const auto closure = [a = Saved(a), b = Saved(b)](const Tensor& dy) {
    const Tensor da = grad_out(a()), db = grad_out(b());
    copy_into(da, dy);
    fill(db, 2 * dy.item());
    return Grads{da, db};
  };
  grad_mode() = true;
  const Tensor recorded = record("placing", y, {a, b}, closure);
  grad_mode() = false;
  return recorded;
}

class Placed : public testing::Test {
 protected:
  Placed() {
    for (int i = 0; i < 2; ++i) place_grad(leaves[i], bucket.view({1}, {1}, i));
  }
  // The gradients, if they are in the bucket and nowhere else.
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

TEST_F(Placed, TheFirstShareIsWrittenThereWithoutACopy) {
  const Tensor y = placing(leaves[0], leaves[1]);
  const int64_t before = allocator_stats(Device::cpu).peak_allocated;
  reset_peak(Device::cpu);
  const int64_t now = allocator_stats(Device::cpu).allocated;
  backward(y);
  EXPECT_EQ(allocator_stats(Device::cpu).peak_allocated - now, 64) << "dy alone; before " << before;
  EXPECT_EQ(grads(), std::pair(1.0, 2.0));
}

TEST_F(Placed, AnOpThatKnowsNothingOfItIsCopied) {
  backward(add(leaves[0], exp(leaves[1])));
  EXPECT_EQ(grads(), std::pair(1.0, std::exp(2.0)));
}

TEST_F(Placed, LaterSharesAreAdded) {
  backward(add(placing(leaves[0], leaves[1]), placing(leaves[0], leaves[1])));
  EXPECT_EQ(grads(), std::pair(2.0, 4.0));
}

// Both gradients of one leaf, out of one backward: the place must not be handed out twice.
TEST_F(Placed, OneOpMayUseALeafTwice) {
  backward(placing(leaves[1], leaves[1]));
  EXPECT_EQ(grad(leaves[1]).item(), 3);
  EXPECT_EQ(grad(leaves[1]).storage(), bucket.storage());
}

TEST_F(Placed, PassesAddUpUntilZeroGrad) {
  for (const bool set_to_none : {true, false}) {
    backward(placing(leaves[0], leaves[1]));
    backward(placing(leaves[0], leaves[1]));
    EXPECT_EQ(grads(), std::pair(2.0, 4.0));
    zero_grad(leaves, set_to_none);
    EXPECT_EQ(grad(leaves[0]).defined(), !set_to_none);
  }
  backward(placing(leaves[0], leaves[1]));
  EXPECT_EQ(grads(), std::pair(1.0, 2.0));
}

TEST_F(Placed, HasToFit) {
  EXPECT_EQ(refusal([&] { place_grad(leaves[0], bucket); }),
            "place_grad(): a place of shape [2] for a leaf of [1]");
}

TEST(ZeroGrad, DropsOrWritesZerosAndCountsWhich) {
  const trace::Counter& dropped = trace::counter("grad.dropped");
  const trace::Counter& memsets = trace::counter("grad.memsets");
  const std::vector<Tensor> leaves{leaf(1), leaf(2), leaf(3)};
  backward(add(leaves[0], leaves[1]));  // the third has no gradient
  const int64_t dropped_before = dropped.value(), memsets_before = memsets.value();
  zero_grad(leaves, false);
  EXPECT_EQ(memsets.value() - memsets_before, 2);
  EXPECT_EQ(grad(leaves[0]).item(), 0);
  zero_grad(leaves, true);
  EXPECT_EQ(dropped.value() - dropped_before, 2);
  EXPECT_FALSE(grad(leaves[0]).defined());
}

// ---- modes

TEST(NoGrad, RecordsNothingOnItsThreadOnly) {
  const trace::Counter& nodes = trace::counter("graph.nodes");
  const Tensor w = leaf(1);
  const int64_t before = nodes.value();
  {
    const NoGrad outer;
    { const NoGrad inner; }
    EXPECT_FALSE(needs_grad(relu(w))) << "the inner guard restores what it found";
    EXPECT_FALSE(will_record(w));
    std::thread([&] { EXPECT_TRUE(will_record(w)); }).join();
    EXPECT_EQ(nodes.value(), before);
  }
  EXPECT_TRUE(needs_grad(relu(w)));
  EXPECT_EQ(nodes.value(), before + 1);
}

TEST(NoGrad, EndsWithAnException) {
  refusal([] {
    const NoGrad guard;
    fail(Exit::data, "planted");
  });
  EXPECT_TRUE(grad_mode());
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
    const AtSite at(site_of("head.log"));
    y = mul(scalar(0), log(w));  // 0 * dlog(0) = 0 * inf
  }
  const Refusal refusal = refused([&] { backward(y); });
  EXPECT_EQ(refusal.exit, Exit::numeric);
  EXPECT_EQ(refusal.message,
            "anomaly: log in module 'head.log' gave input 0 a gradient that is not finite, at step "
            "42");
}

TEST_F(AnomalyMode, LetsAFinitePassThrough) {
  const Tensor w = leaf(1);
  backward(log(w));
  EXPECT_EQ(grad(w).item(), 1);
}

TEST(Anomaly, OffLooksAtNothing) {
  const Tensor w = leaf(0);
  backward(mul(scalar(0), log(w)));
  EXPECT_TRUE(std::isnan(grad(w).item()));
}
