// Convolution on the device: every window geometry, and sizes near the boundaries of tiles.
#include "ops/conv/conv2d.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

const std::vector<int> kInNCHW = {0, 1, 2, 3}, kInNHWC = {0, 2, 3, 1}, kInCHWN = {1, 2, 3, 0};

struct Layer {
  Shape x, w;
  Conv2dOptions options;
};
std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << "x " << l.x << " w " << l.w << " stride " << l.options.stride << " padding "
             << l.options.padding;
}

void expect_convolution(const Layer& l, DType dtype, const std::vector<int>& memory,
                        bool with_bias = true, int64_t gap = 1) {
  SCOPED_TRACE(cat(l, " ", dtype, " in ", memory[1], memory[3], with_bias ? "" : " without bias"));
  const Shape y = conv2d_shape("test", l.x, l.w, l.options);
  const Tensor x = normal(l.x, 1, dtype), w = normal(l.w, 2, dtype), dy = normal(y, 4, dtype);
  const Tensor b = with_bias ? normal({l.w[0]}, 3, dtype) : Tensor();
  const auto moved = [&](const Tensor& t) { return with_order(on_device(t, dtype), memory, gap); };
  const Tensor x_ = moved(x), dy_ = moved(dy), w_ = on_device(w, dtype), b_ = on_device(b, dtype);
  const double tolerance = tolerance_of(dtype);
  Slot slot;
  EXPECT_LE(difference(kernels::conv2d(x, w, b, l.options, slot),
                       kernels::conv2d(x_, w_, b_, l.options, slot)),
            tolerance);
  EXPECT_LE(difference(kernels::conv2d_backward_x(dy, w, l.x, l.options, slot),
                       kernels::conv2d_backward_x(dy_, w_, l.x, l.options, slot)),
            tolerance);
  const auto gradient = [&](Device device, DType type) {
    return std::pair{Tensor(l.w, type, device),
                     with_bias ? Tensor({l.w[0]}, type, device) : Tensor()};
  };
  const auto [dw, db] = gradient(Device::cpu, DType::f64);
  const auto [dw_, db_] = gradient(Device::cuda, dtype);
  kernels::conv2d_backward_w(dy, x, dw, db, l.options, slot);
  kernels::conv2d_backward_w(dy_, x_, dw_, db_, l.options, slot);
  EXPECT_LE(difference(dw, dw_), tolerance) << "dw";
  if (with_bias) {
    EXPECT_LE(difference(db, db_), tolerance) << "db";
  }
}

struct TiledConvolution : InAnyOrder {};

}  // namespace

TEST_P(TiledConvolution, EveryWindow) {
  for (const Layer& l : {Layer{{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
                         {{2, 3, 5, 6}, {4, 3, 3, 2}, {}},
                         {{3, 2, 7, 5}, {17, 2, 3, 3}, {.stride = 2, .padding = 1}},
                         {{2, 1, 6, 6}, {3, 1, 5, 5}, {.padding = 2}},
                         {{1, 5, 9, 8}, {16, 5, 1, 1}, {.stride = 3}},
                         {{2, 2, 4, 3}, {2, 2, 4, 5}, {.stride = 2, .padding = 3}}})
    for (const auto& memory : {kInNCHW, kInNHWC, kInCHWN})
      expect_convolution(l, DType::f32, memory);
}

TEST_P(TiledConvolution, EveryDtype) {
  const Layer l{{2, 3, 6, 7}, {5, 3, 3, 3}, {.stride = 2, .padding = 1}};
  for (const DType dtype : kFloats) {
    expect_convolution(l, dtype, kInNCHW);
    expect_convolution(l, dtype, kInNHWC, false);
    expect_convolution(l, dtype, kInNCHW, true, 2);
  }
}

// 17 channels and more than 131 * 64 pixels select tiles of 64 x 64; the last ones are partial.
TEST_P(TiledConvolution, WideTiles) {
  expect_convolution({{1, 17, 93, 93}, {17, 17, 1, 1}, {}}, DType::f32, kInNCHW);
}

// More pixels than one share of dw has (256), so the last share is partial.
TEST_P(TiledConvolution, SharesOfThePixels) {
  expect_convolution({{5, 2, 12, 11}, {3, 2, 3, 3}, {.padding = 1}}, DType::f32, kInNCHW);
}

TEST_P(TiledConvolution, KeepsTheFormatOfItsInput) {
  const Tensor x = with_order(on_device(normal({2, 3, 4, 5}, 1), DType::f32), kInNHWC);
  const Tensor w = on_device(normal({4, 3, 3, 3}, 2), DType::f32);
  Slot slot;
  const Tensor y = kernels::conv2d(x, w, Tensor(), {}, slot);
  EXPECT_TRUE(y.is_contiguous(kNHWC));
  EXPECT_TRUE(kernels::conv2d_backward_x(y, w, x.shape(), {}, slot).is_contiguous(kNHWC));
  EXPECT_TRUE(kernels::conv2d(contiguous(x), w, Tensor(), {}, slot).is_contiguous());
}

IN_ANY_ORDER(TiledConvolution);
