// The fused convolution, ReLU and pool on the device: LeNet's two layers, and odd sizes.
#include "ops/conv/conv_act_pool.h"
#include "core/base/trace.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

struct Layer {
  int64_t N, C, H, W, K, KH, KW, padding;
};
std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << Shape{l.N, l.C, l.H, l.W} << " to " << l.K << " by " << l.KH << " x " << l.KW
             << " padding " << l.padding;
}

void expect_layer(const Layer& l, DType dtype, const std::vector<int>& memory = {0, 1, 2, 3}) {
  SCOPED_TRACE(cat(l, " ", dtype, " in ", memory[1], memory[3]));
  const Shape shape{l.N, l.C, l.H, l.W}, weights{l.K, l.C, l.KH, l.KW};
  const Tensor x = normal(shape, 1, dtype), w = normal(weights, 2, dtype);
  const Tensor b = normal({l.K}, 3, dtype), w_ = on_device(w, dtype);
  const Tensor x_ = with_order(on_device(x, dtype), memory);
  const auto [y, winner] = kernels::conv_act_pool(x, w, b, l.padding);
  const auto [y_, winner_] = kernels::conv_act_pool(x_, w_, on_device(b, dtype), l.padding);
  EXPECT_LE(difference(y, y_), tolerance_of(dtype));
  if (dtype == DType::f64) {
    EXPECT_EQ(difference(winner, winner_), 0);
  }

  // Uses the CPU's winners: in f32 and below, values that are nearly equal may be ordered
  // otherwise.
  const Tensor dy = normal(y.shape(), 4, dtype), dw(weights, DType::f64), db({l.K}, DType::f64);
  const Tensor dy_ = with_order(on_device(dy, dtype), memory);
  const Tensor dw_(weights, dtype, Device::cuda), db_({l.K}, dtype, Device::cuda);
  const Tensor dx = kernels::conv_act_pool_backward(dy, winner, x, w, dw, db, l.padding, true);
  const Tensor dx_ = kernels::conv_act_pool_backward(dy_, to(Device::cuda, contiguous(winner)), x_,
                                                     w_, dw_, db_, l.padding, true);
  EXPECT_LE(difference(dx, dx_), tolerance_of(dtype)) << "dx";
  EXPECT_LE(difference(dw, dw_), tolerance_of(dtype)) << "dw";
  EXPECT_LE(difference(db, db_), tolerance_of(dtype)) << "db";
}

struct FusedLayer : InAnyOrder {};

}  // namespace

TEST_P(FusedLayer, OfLeNet) {
  expect_layer({3, 1, 28, 28, 6, 5, 5, 2}, DType::f32);
  expect_layer({3, 6, 14, 14, 16, 5, 5, 0}, DType::f32);
}

// Odd sizes that the pool truncates, 3 x 3, 5 x 5 and other kernels, more taps than a team has
// threads, and enough channels that a share has several images and the last share fewer.
TEST_P(FusedLayer, OfOddSizes) {
  for (const Layer& l : {Layer{1, 1, 2, 2, 1, 1, 1, 0},
                         {2, 3, 5, 6, 4, 2, 3, 0},
                         {5, 2, 7, 6, 3, 3, 3, 1},
                         {3, 2, 6, 7, 5, 4, 4, 3},
                         {2, 7, 6, 5, 3, 5, 5, 2},
                         {1, 50, 4, 4, 2, 3, 3, 1},
                         {3, 1, 4, 5, 300, 2, 2, 1}})
    expect_layer(l, DType::f64);
}

TEST_P(FusedLayer, EveryDtypeAndFormat) {
  for (const DType dtype : kFloats)
    for (const std::vector<int>& memory : {std::vector{0, 1, 2, 3}, {0, 2, 3, 1}, {1, 2, 3, 0}})
      expect_layer({2, 3, 7, 8, 5, 3, 3, 1}, dtype, memory);
}

TEST_P(FusedLayer, IsOneLaunchForwardAndOneBackward) {
  const Tensor x = on_device(normal({2, 1, 8, 8}, 1), DType::f32);
  const Tensor w = on_device(normal({3, 1, 5, 5}, 2), DType::f32);
  const Tensor b = on_device(normal({3}, 3), DType::f32);
  const trace::Counter& launches = trace::counter("cuda.launches");
  int64_t before = launches.value();
  const auto [y, winner] = kernels::conv_act_pool(x, w, b, 2);
  EXPECT_EQ(launches.value() - before, 1);
  before = launches.value();
  const Tensor dx =
      kernels::conv_act_pool_backward(y, winner, x, w, empty_like(w), empty_like(b), 2, true);
  EXPECT_EQ(launches.value() - before, 1);
}

TEST_P(FusedLayer, NotANumberStaysOneAndReluStopsTheRest) {
  const Tensor x = tensor_of<double>({-1, -2, -3, -4, -1, NAN, -3, 4}, {2, 1, 2, 2});
  const Tensor w = on_device(full({1, 1, 1, 1}, 1, DType::f64), DType::f32);
  const Tensor b = on_device(full({1}, 0, DType::f64), DType::f32);
  const auto [y, winner] = kernels::conv_act_pool(on_device(x, DType::f32), w, b, 0);
  EXPECT_EQ(difference(tensor_of<double>({0, NAN}, {2, 1, 1, 1}), y), 0);
  EXPECT_EQ(difference(full({2, 1, 1, 1}, kernels::kNoWinner), winner), 0);
}

IN_ANY_ORDER(FusedLayer);
