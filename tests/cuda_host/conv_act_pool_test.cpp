// The fused convolution, ReLU and pool on the device beyond the generic suite: odd sizes, and NaN.
#include "ops/conv/conv_act_pool.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

struct Layer {
  int64_t N, C, H, W, K, KH, KW, padding;
};

// The gradient of y is y.
void expect_layer(const Layer& l) {
  const Tensor x = normal({l.N, l.C, l.H, l.W}, 1), w = normal({l.K, l.C, l.KH, l.KW}, 2);
  const Tensor b = normal({l.K}, 3);
  SCOPED_TRACE(cat("x ", x.shape(), " w ", w.shape(), " padding ", l.padding));
  const auto run = [&](Device device) {
    const Tensor x_ = to(device, x), w_ = to(device, w), b_ = to(device, b);
    const Tensor dw = empty_like(w_), db = empty_like(b_);
    const auto [y, winner] = kernels::conv_act_pool(x_, w_, b_, l.padding);
    const Tensor dx = kernels::conv_act_pool_backward(y, winner, x_, w_, dw, db, l.padding, true);
    return std::array{winner, y, dx, dw, db};
  };
  const auto want = run(Device::cpu), got = run(Device::cuda);
  const char* const names[] = {"winner", "y", "dx", "dw", "db"};
  for (int i = 0; i < 5; ++i)
    EXPECT_LE(difference(want[i], got[i]), i ? tolerance_of(DType::f64) : 0) << names[i];
}

struct FusedLayer : InAnyOrder {};

}  // namespace

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
    expect_layer(l);
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
