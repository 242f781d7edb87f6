// The fused linear layers on the device, alone and with the loss: LeNet's sizes, odd ones, and what
// they cannot take.
#include "ops/matmul/linear_tail.h"
#include "autograd/amp.h"
#include "autograd/backward.h"
#include "autograd/op_log.h"
#include "core/base/trace.h"
#include "ops/base/work.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

struct Tail : InAnyOrder {};
struct TailLoss : InAnyOrder {};

// Features of x and of each layer's output.
using Features = std::vector<int64_t>;

struct Ran {
  Tensor y;                   // or the loss
  std::vector<Tensor> grads;  // of x, then of w and b of each layer
};

// Runs fn(x, layers), which returns y, and backward from a sum of y with irregular weights. All
// outputs of layers are about 1.
Ran run_with(int64_t rows, const Features& features, Device device, DType dtype, const auto& fn) {
  const auto leaf = [&](const Shape& shape, uint64_t seed, int64_t terms = 1) {
    const Tensor t = normal(shape, seed);
    for (double& value : t.data<double>()) value /= std::sqrt(double(terms));
    return require_grad(to(device, cast(cast(t, DType::f32), dtype)));
  };
  const Tensor x = leaf({rows, features[0]}, 1);
  std::vector<LinearTailLayer> layers;
  std::vector<Tensor> leaves{x};
  for (size_t i = 1; i < features.size(); ++i) {
    const int64_t in = features[i - 1], out = features[i];
    layers.push_back({leaf({out, in}, 2 * i, in), leaf({out}, 2 * i + 1)});
    leaves.insert(leaves.end(), {layers.back().w, layers.back().b});
  }
  Ran ran{fn(x, layers), {}};
  backward(sum(mul(ran.y, to(device, cast(normal(ran.y.shape(), 99), ran.y.dtype())))));
  for (const Tensor& t : leaves) ran.grads.push_back(to(Device::cpu, grad(t)));
  ran.y = to(Device::cpu, ran.y.detach());
  return ran;
}

Ran run(int64_t rows, const Features& features, Device device, DType dtype, Impl impl) {
  return run_with(rows, features, device, dtype, [&](const Tensor& x, const auto& layers) {
    return linear_tail(x, layers, impl);
  });
}

struct LossCase {
  int64_t rows;
  Features features;
  double smoothing = 0;
  int64_t wrong_label_of = -1;  // row whose label is out of range; -1: none
};

// The labels lie two elements apart. composed: of the two fused ops, so it rounds at the same
// places.
Ran run_loss(const LossCase& z, Device device, DType dtype, Impl impl) {
  const int64_t classes = z.features.back();
  std::vector<int64_t> pairs(2 * z.rows, -7);
  for (int64_t n = 0; n < z.rows; ++n)
    pairs[2 * n] = n == z.wrong_label_of ? classes : n * 3 % classes;
  const Tensor labels = tensor_of(pairs, {2 * z.rows}, device).view({z.rows}, {2}, 0);
  const CrossEntropyOptions options{.label_smoothing = z.smoothing};
  return run_with(z.rows, z.features, device, dtype, [&](const Tensor& x, const auto& layers) {
    return impl == Impl::fused
               ? linear_tail_loss(x, layers, labels, options, impl)
               : cross_entropy(linear_tail(x, layers, Impl::composed), labels, options);
  });
}

std::vector<float> all_of(const Ran& ran) {
  std::vector<float> all(ran.y.ptr<float>(), ran.y.ptr<float>() + ran.y.numel());
  for (const Tensor& g : ran.grads)
    all.insert(all.end(), g.ptr<float>(), g.ptr<float>() + g.numel());
  return all;
}

void expect_equal(const Ran& want, const Ran& got, double tolerance) {
  EXPECT_LE(difference(want.y, got.y), tolerance) << "y";
  for (size_t i = 0; i < want.grads.size(); ++i)
    EXPECT_LE(difference(want.grads[i], got.grads[i]), tolerance) << "gradient " << i;
}

// In 16 bits both round after each layer, so the composed ops of the device are the reference.
void expect_twin(int64_t rows, const Features& features, DType dtype) {
  SCOPED_TRACE(cat(rows, " rows ", dtype, " ", features.size() - 1, " layers"));
  const bool wide = size_of(dtype) > 2;
  const Ran want = run(rows, features, wide ? Device::cpu : Device::cuda, wide ? DType::f64 : dtype,
                       Impl::composed);
  expect_equal(want, run(rows, features, Device::cuda, dtype, Impl::fused),
               2 * tolerance_of(dtype));
}
void expect_loss_twin(const LossCase& z, DType dtype, DType low = DType::f32) {
  SCOPED_TRACE(cat(z.rows, " rows ", dtype, " ", z.features.size() - 1, " layers ", z.smoothing));
  const Autocast precision(low);
  const DType rounded = low == DType::f32 ? dtype : low;
  const bool wide = size_of(rounded) > 2 && z.wrong_label_of < 0;  // the CPU refuses such labels
  const Ran want =
      run_loss(z, wide ? Device::cpu : Device::cuda, wide ? DType::f64 : dtype, Impl::composed);
  const Ran got = run_loss(z, Device::cuda, dtype, Impl::fused);
  expect_equal(want, got, 2 * tolerance_of(rounded));
  EXPECT_EQ(got.y.dtype(), dtype);
}

}  // namespace

TEST_P(Tail, OfLeNet) { expect_twin(5, {400, 120, 84, 10}, DType::f32); }

// One row and an odd number of them, one feature, more features than a block has warps or half its
// threads, and outputs that do not divide by the teams.
TEST_P(Tail, OfOddSizes) {
  for (const auto& [rows, features] : {std::pair<int64_t, Features>{1, {3, 2, 1}},
                                       {3, {1, 1, 1, 1}},
                                       {2, {7, 33, 600, 5}},
                                       {7, {65, 9, 40, 31}},
                                       {18, {5, 17, 3}}})
    for (const DType dtype : kFloats) expect_twin(rows, features, dtype);
}

TEST_P(Tail, IsOneLaunchForwardAndTwoBackward) {
  const trace::Counter& launches = trace::counter("cuda.launches");
  const Tensor x = on_device(normal({4, 6}, 1), DType::f32);
  const Tensors w{on_device(normal({5, 6}, 2), DType::f32),
                  on_device(normal({3, 5}, 3), DType::f32)};
  const Tensors none(2), dw{empty_like(w[0]), empty_like(w[1])};
  int64_t before = launches.value();
  const Tensors y = kernels::linear_tail(x, w, none, {}, 0).y;
  EXPECT_EQ(launches.value() - before, 1);
  before = launches.value();
  EXPECT_TRUE(
      kernels::linear_tail_backward(y[1], x, w, {y[0]}, {}, {}, 0, dw, none, true).defined());
  EXPECT_EQ(launches.value() - before, 2);
}

// dw is written with its strides; x may have any; what no one needs is left out.
TEST_P(Tail, TakesStridesAndLeavesOutWhatIsNotNeeded) {
  const Tensor x = on_device(normal({5, 6}, 1), DType::f32), none;
  const Tensor dy = on_device(normal({5, 3}, 4), DType::f32);
  const Tensors w{on_device(normal({4, 6}, 2), DType::f32),
                  on_device(normal({3, 4}, 3), DType::f32)};
  const auto grads = [&](const Tensor& in, const Tensors& dw, bool needs_dx) {
    const Tensors y = kernels::linear_tail(in, w, {none, none}, none, 0).y;
    return kernels::linear_tail_backward(dy, in, w, {y[0]}, none, none, 0, dw, {none, none},
                                         needs_dx);
  };
  const Tensor dw = empty_like(w[0]), strided = with_order(dw, {1, 0}, 2);
  const Tensor dx = grads(x, {dw, none}, true);
  EXPECT_FALSE(grads(with_order(x, {1, 0}, 3), {strided, none}, false).defined());
  EXPECT_EQ(difference(to(Device::cpu, dw), contiguous(strided)), 0);
  EXPECT_EQ(difference(to(Device::cpu, dx), grads(x, {none, none}, true)), 0);
}

// A relu keeps NaN; layers that are too large, or too many, run one by one.
TEST_P(Tail, ComposedWhereItDoesNotFit) {
  const trace::Counter& fused = trace::counter("fuse.linear_tail");
  for (const auto& [features, runs] : {std::pair<Features, int64_t>{{4, 3, 2}, 1},
                                       {{4, 3}, 0},
                                       {{2, 2, 2, 2, 2}, 0},
                                       {{2, 1025, 2}, 0},
                                       {{1024, 1024, 4}, 0}}) {
    const int64_t before = fused.value();
    std::vector<LinearTailLayer> layers;
    for (size_t i = 1; i < features.size(); ++i)
      layers.push_back({full({features[i], features[i - 1]}, 1, DType::f32, Device::cuda), {}});
    const Tensor x = full({9, features[0]}, NAN, layers[0].w);
    EXPECT_TRUE(std::isnan(
        cast(to(Device::cpu, linear_tail(x, layers, Impl::fused)), DType::f64).ptr<double>()[0]));
    EXPECT_EQ(fused.value() - before, runs) << features.size() << " " << features[1];
  }
}

TEST(TailTwice, GivesTheSameBits) {
  EXPECT_EQ(order_dependence([] {
              return all_of(run(9, {40, 33, 20, 7}, Device::cuda, DType::f32, Impl::fused));
            }),
            "");
}

// ---- with the loss

TEST_P(TailLoss, OfLeNet) {
  expect_loss_twin({5, {400, 120, 84, 10}}, DType::f32);
  expect_loss_twin({5, {400, 120, 84, 10}, 0.1}, DType::f32);
}

// One class, more classes than a warp has threads, and more rows than a block has warps.
TEST_P(TailLoss, OfOddSizes) {
  for (const LossCase& z : {LossCase{1, {3, 2, 1}},
                            {3, {1, 1, 1, 2}, 0.3},
                            {2, {7, 33, 600, 5}},
                            {7, {65, 9, 40, 67}, 0.1},
                            {37, {5, 17, 4}}})
    for (const DType dtype : kFloats) expect_loss_twin(z, dtype);
}

// Logits are rounded to 16 bits, the loss is not.
TEST_P(TailLoss, UnderAmp) {
  for (const DType low : {DType::bf16, DType::f16})
    for (const LossCase& z : {LossCase{5, {400, 120, 84, 10}}, {7, {65, 9, 40, 67}, 0.1}})
      expect_loss_twin(z, DType::f32, low);
}

// The loss, all gradients of parameters and one row of dx are NaN.
TEST_P(TailLoss, OfAWrongLabelIsNaN) {
  const LossCase z{5, {6, 5, 4}, 0, 3};
  expect_loss_twin(z, DType::f32);
  const Ran ran = run_loss(z, Device::cuda, DType::f32, Impl::fused);
  EXPECT_TRUE(std::isnan(ran.y.item()));
  for (int64_t i = 0; i < 5 * 6; ++i)
    EXPECT_EQ(std::isnan(ran.grads[0].ptr<float>()[i]), i / 6 == 3) << i;
}

TEST_P(TailLoss, IsOneLaunchForwardAndTwoBackward) {
  const trace::Counter& launches = trace::counter("cuda.launches");
  const Tensor x = on_device(normal({4, 6}, 1), DType::f32), dy = full({}, 1, x);
  const Tensor labels = tensor_of<int64_t>({0, 1, 2, 1}, {4}, Device::cuda);
  const Tensors w{on_device(normal({5, 6}, 2), DType::f32),
                  on_device(normal({3, 5}, 3), DType::f32)};
  const Tensors none(2), dw{empty_like(w[0]), empty_like(w[1])};
  int64_t before = launches.value();
  const auto [y, lse, loss] = kernels::linear_tail(x, w, none, labels, 0);
  EXPECT_EQ(launches.value() - before, 1);
  before = launches.value();
  kernels::linear_tail_backward(dy, x, w, y, labels, lse, 0, dw, none, true);
  EXPECT_EQ(launches.value() - before, 2);
}

TEST_P(TailLoss, CountsAsBothFusions) {
  const trace::Counter &tails = trace::counter("fuse.linear_tail"),
                       &losses = trace::counter("fuse.loss");
  for (const auto& [features, runs] :
       {std::pair<Features, int64_t>{{4, 3, 2}, 1}, {{2, 1025, 2}, 0}}) {
    const int64_t tails_before = tails.value(), losses_before = losses.value();
    run_loss({3, features}, Device::cuda, DType::f32, Impl::fused);
    EXPECT_EQ(tails.value() - tails_before, runs);
    EXPECT_EQ(losses.value() - losses_before, 1);
  }
}

// Outputs of both layers, (4, 6) and (4, 3), are written, then read with their gradients.
TEST_P(TailLoss, StatesItsWork) {
  OpLog log;
  run_loss({4, {5, 6, 3}}, Device::cuda, DType::f32, Impl::fused);
  ASSERT_EQ(log.ops.at(0).name, "linear_tail_loss");
  const OpWork work = work_of(log.ops[0]);
  constexpr double kInputs = 4 * 5 + 6 * 5 + 6 + 3 * 6 + 3, kOutputs = 4 * 6 + 4 * 3;
  EXPECT_EQ(work.forward.flop, 2 * 4 * (6 * 5 + 3 * 6));
  EXPECT_EQ(work.backward.flop, 2 * work.forward.flop);
  EXPECT_EQ(work.forward.bytes, 4 * (kInputs + kOutputs + 1));
  EXPECT_EQ(work.backward.bytes, 4 * (2 * kInputs + 3 * kOutputs + 1));
}

TEST(TailLossTwice, GivesTheSameBits) {
  EXPECT_EQ(order_dependence([] {
              return all_of(run_loss({9, {40, 33, 20, 7}}, Device::cuda, DType::f32, Impl::fused));
            }),
            "");
}

IN_ANY_ORDER(Tail);
IN_ANY_ORDER(TailLoss);
