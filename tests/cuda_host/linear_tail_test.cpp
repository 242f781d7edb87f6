// The fused linear layers on the device: LeNet's sizes, odd ones, and what they cannot take.
#include "ops/matmul/linear_tail.h"
#include "autograd/backward.h"
#include "core/base/trace.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

struct Tail : InAnyOrder {};

// Features of x and of each layer's output.
using Features = std::vector<int64_t>;

struct Ran {
  Tensor y;
  std::vector<Tensor> grads;  // of x, then of w and b of each layer
};

Ran run(int64_t rows, const Features& features, Device device, DType dtype, Impl impl) {
  const auto leaf = [&](const Shape& shape, uint64_t seed) {
    return require_grad(to(device, cast(normal(shape, seed), dtype)));
  };
  const Tensor x = leaf({rows, features[0]}, 1);
  std::vector<LinearTailLayer> layers;
  std::vector<Tensor> leaves{x};
  for (size_t i = 1; i < features.size(); ++i) {
    layers.push_back({leaf({features[i], features[i - 1]}, 2 * i), leaf({features[i]}, 2 * i + 1)});
    leaves.insert(leaves.end(), {layers.back().w, layers.back().b});
  }
  Ran ran{linear_tail(x, layers, impl), {}};
  backward(sum(mul(ran.y, to(device, cast(normal(ran.y.shape(), 99), dtype)))));
  for (const Tensor& t : leaves) ran.grads.push_back(to(Device::cpu, grad(t)));
  ran.y = to(Device::cpu, ran.y.detach());
  return ran;
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
  const Tensors y = kernels::linear_tail(x, w, none);
  EXPECT_EQ(launches.value() - before, 1);
  before = launches.value();
  EXPECT_TRUE(kernels::linear_tail_backward(y[1], x, w, {y[0]}, dw, none, true).defined());
  EXPECT_EQ(launches.value() - before, 2);
}

// dw is written with its strides; x may have any; what no one needs is left out.
TEST_P(Tail, TakesStridesAndLeavesOutWhatIsNotNeeded) {
  const Tensor x = on_device(normal({5, 6}, 1), DType::f32), none;
  const Tensor dy = on_device(normal({5, 3}, 4), DType::f32);
  const Tensors w{on_device(normal({4, 6}, 2), DType::f32),
                  on_device(normal({3, 4}, 3), DType::f32)};
  const auto grads = [&](const Tensor& in, const Tensors& dw, bool needs_dx) {
    const Tensors y = kernels::linear_tail(in, w, {none, none});
    return kernels::linear_tail_backward(dy, in, w, {y[0]}, dw, {none, none}, needs_dx);
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
              const Ran ran = run(9, {40, 33, 20, 7}, Device::cuda, DType::f32, Impl::fused);
              std::vector<float> all(ran.y.ptr<float>(), ran.y.ptr<float>() + ran.y.numel());
              for (const Tensor& g : ran.grads)
                all.insert(all.end(), g.ptr<float>(), g.ptr<float>() + g.numel());
              return all;
            }),
            "");
}

IN_ANY_ORDER(Tail);
