// Chains: the bits of the single ops in one pass, and saved tensors.
// tests/ops/expression_test.cpp covers the text.
#include "ops/chain/pointwise.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include "autograd/backward.h"
#include "autograd/gradcheck.h"
#include "core/tensor/copy.h"
#include "ops/base/op.h"
#include "ops/elementwise.h"
#include "tests/moved.h"
#include "tests/refusal.h"

using namespace bellows;
using testing::ElementsAre;

static const Chain& scaled() {
  static const Chain chain("relu(x * scale + shift)", {"x", "scale", "shift"});
  return chain;
}

static Inputs leaves(std::initializer_list<Shape> shapes) {
  return make_inputs({.name = "", .math = "", .cases = {}, .run = nullptr}, shapes, DType::f32);
}

static void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  const Tensor a_ = contiguous(a), b_ = contiguous(b);
  ASSERT_EQ(a.shape(), b.shape()) << what;
  EXPECT_EQ(std::memcmp(a_.bytes(), b_.bytes(), a_.nbytes()), 0) << what;
}

// ---- the same bits as op by op

TEST(Pointwise, FusedHasTheBitsOfComposed) {
  int specs = 0;
  for (const OpSpec& op : op_specs()) {
    if (std::string(op.name) != "pointwise") continue;
    ++specs;
    std::vector<Shapes> all = op.cases;
    all.insert(all.end(), op.large.begin(), op.large.end());
    for (const Shapes& shapes : all)
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Inputs a = make_inputs(op, shapes, dtype), b = make_inputs(op, shapes, dtype);
        const Tensor fused = op.run(a), composed = op.composed(b);
        expect_same_bits(fused, composed, op.variant);
        backward(probe_loss(fused));
        backward(probe_loss(composed));
        for (size_t k = 0; k < a.size(); ++k)
          expect_same_bits(grad(a[k]), grad(b[k]), cat(op.variant, ", input ", k));
      }
  }
  EXPECT_GT(specs, 5);
}

// x enters the chain twice and bypasses it once. The three contributions are added in one order.
TEST(Pointwise, FusedHasTheBitsOfComposedInALargerGraph) {
  const Chain swish("x * sigmoid(1.5 * x)", {"x"});
  std::vector<Tensor> grads;
  for (const Impl impl : {Impl::fused, Impl::composed}) {
    const Inputs in = leaves({{1000}});
    const Tensor x = exp(in[0]);
    backward(probe_loss(add(pointwise(swish, {&x, 1}, impl), x)));
    grads.push_back(grad(in[0]));
  }
  expect_same_bits(grads[0], grads[1], "gradient");
}

TEST(Pointwise, NotANumberStaysOneAndInfinityToo) {
  const Tensor x = tensor_of<float>({NAN, INFINITY, -INFINITY, -1}, {4}), one = full({}, 1);
  const Inputs in{x, one, one};
  const Tensor y = pointwise(scaled(), in, Impl::fused);
  EXPECT_TRUE(std::isnan(y.data<float>()[0]));
  EXPECT_THAT(y.data<float>().last(3), ElementsAre(INFINITY, 0, 0));
}

TEST(Pointwise, KeepsTheMemoryFormatOfWhatIsNotStretched) {
  for (const MemoryFormat& format : {kNCHW, kNHWC, kCHWN}) {
    const Tensor x(Shape{2, 3, 4, 5}, DType::f32, Device::cpu, format);
    kernels::copy(x, full({}, 1).view(x.shape(), {0, 0, 0, 0}, 0));
    const Chain chain("scale * x", {"scale", "x"});
    const Inputs in{full({3, 1, 1}, 2), x};
    EXPECT_TRUE(pointwise(chain, in, Impl::fused).is_contiguous(format)) << format.name;
  }
}

// ---- one pass

// Leaves out constants, and the kernel that makes the 1 from which backward() starts.
static int64_t launches() {
  int64_t sum = 0;
  for (const KernelRecord* record : kernel_records())
    if (!std::string_view(record->name).starts_with("fill")) sum += record->runs[0];
  return sum;
}

struct Cost {
  int64_t forward, backward;  // kernels
};
static Cost cost_of(const Chain& chain, const Inputs& in, Impl impl) {
  const int64_t before = launches();
  const Tensor y = pointwise(chain, in, impl);  // a scalar
  const int64_t between = launches();
  backward(y);
  return {between - before, launches() - between};
}

TEST(Pointwise, IsOneKernelForwardAndOneBackward) {
  const Chain chain("relu(x * scale + shift) / 3", {"x", "scale", "shift"});
  const Cost fused = cost_of(chain, leaves({{}, {}, {}}), Impl::fused);
  EXPECT_EQ(fused.forward, 1);
  EXPECT_EQ(fused.backward, 1);
  const Cost composed = cost_of(chain, leaves({{}, {}, {}}), Impl::composed);
  EXPECT_EQ(composed.forward, 4);
  EXPECT_GE(composed.backward, 4);  // of div, relu, and two of mul
}

TEST(Pointwise, ComputesOnceWhatIsWrittenTwiceAndNumbersInAdvance) {
  const auto steps = [](const char* text) {
    return cost_of(Chain(text, {"a"}), leaves({{}}), Impl::composed).forward;
  };
  EXPECT_EQ(steps("tanh(a + 1) * tanh(1 + a)"), 3);
  EXPECT_EQ(steps("a * (2 * 3 - square(2)) + exp(0)"), 2);
}

TEST(Pointwise, ReadsItsInputsOnceAndWritesItsResultOnce) {
  const Moved bytes("pointwise.bytes"), runs("fuse.pointwise");
  const int64_t N = 6 * 50 * 4, C = 6 * 4;  // bytes of x, and of scale
  const Inputs in = leaves({{6, 50}, {6, 1}, {6, 1}});
  const int64_t launches_before = launches();
  const Tensor y = pointwise(scaled(), in, Impl::fused);
  EXPECT_EQ(launches() - launches_before, 1) << "an input that is stretched is not copied";
  const int64_t forward = N + 2 * C + N;
  EXPECT_EQ(bytes, forward);
  backward(probe_loss(y));
  // Reads x, scale, shift and dy; writes the gradients of all three at full size.
  EXPECT_EQ(bytes, 2 * forward + 3 * N);
  backward(probe_loss(pointwise(scaled(), in, Impl::composed)));
  EXPECT_EQ(bytes, 2 * forward + 3 * N);
  EXPECT_EQ(runs, 1);
  const Moved more("pointwise.bytes");
  pointwise(Chain("x * sigmoid(x)", {"x"}), leaves({{100}}), Impl::fused);
  EXPECT_EQ(more, 2 * 400) << "mentioned twice, read once";
}

TEST(Pointwise, KeepsTheInputsThatBackwardReadsAndNothingElse) {
  const auto saved_by = [&](const char* text, Impl impl) {
    const Chain chain(text, {"x", "y"});
    const Inputs in = leaves({{100}, {100}});
    const Inputs inner{mul(in[0], 1), mul(in[1], 1)};  // parameters would not be counted
    const Moved saved("mem.saved_bytes");
    const Tensor y = pointwise(chain, inner, impl);
    return int64_t(saved);
  };
  EXPECT_EQ(saved_by("silu(gelu(x) * tanh(y))", Impl::fused), 2 * 400);
  EXPECT_EQ(saved_by("silu(gelu(x) * tanh(y))", Impl::composed), 4 * 400);
  EXPECT_EQ(saved_by("exp(x) - 2 * y", Impl::fused), 400);
  EXPECT_EQ(saved_by("3 * x - y / 2", Impl::fused), 400);  // a division needs its operands
  EXPECT_EQ(saved_by("3 * x - y", Impl::fused), 0);
}

TEST(Pointwise, RefusesTwoDTypesAndTheWrongNumberOfTensors) {
  const Inputs two{full({2}, 1), full({2}, 1, DType::f64), full({}, 1)}, few{full({2}, 1)};
  EXPECT_EQ(refusal([&] { pointwise(scaled(), two, Impl::fused); }),
            "pointwise: x is f32 and scale is f64");
  EXPECT_EQ(refusal([&] { pointwise(scaled(), few, Impl::composed); }),
            "pointwise: 1 tensors for the 3 inputs of  relu(x * scale + shift)");
}
