// Convolution on the device beyond the generic suite: windows that it leaves out, and tiles of 64 x
// 64, which only large products use.
#include "ops/conv/conv2d.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

struct Layer {
  Shape x, w;
  Conv2dOptions options;
};
std::ostream& operator<<(std::ostream& out, const Layer& l) {
  return out << "x " << l.x << " w " << l.w << " stride " << l.options.stride << " padding "
             << l.options.padding;
}

// Expects y, dx, dw and db as on the CPU. y and dx keep NHWC.
void expect_convolution(const Layer& l, const MemoryFormat& format) {
  SCOPED_TRACE(cat(l, " in ", format.name));
  const auto run = [&](Device device, DType dtype) {
    const auto placed = [&](const Tensor& t) { return to(device, cast(t, dtype)); };
    const auto images = [&](const Shape& shape, uint64_t seed) {
      return contiguous(placed(normal(shape, seed)), format);
    };
    const Tensor x = images(l.x, 1), w = placed(normal(l.w, 2)), b = placed(normal({l.w[0]}, 3));
    const Tensor dw = empty_like(w), db = empty_like(b);
    Slot slot;
    const Tensor y = kernels::conv2d(x, w, b, l.options, slot), dy = images(y.shape(), 4);
    kernels::conv2d_backward_w(dy, x, dw, db, l.options, slot);
    return std::array{y, kernels::conv2d_backward_x(dy, w, l.x, l.options, slot), dw, db};
  };
  const auto want = run(Device::cpu, DType::f64), got = run(Device::cuda, DType::f32);
  const char* const names[] = {"y", "dx", "dw", "db"};
  for (int i = 0; i < 4; ++i)
    EXPECT_LE(difference(want[i], got[i]), tolerance_of(DType::f32)) << names[i];
  const MemoryFormat& kept = format == kNHWC ? kNHWC : kNCHW;
  EXPECT_TRUE(got[0].is_contiguous(kept) && got[1].is_contiguous(kept));
}

struct TiledConvolution : InAnyOrder {};

}  // namespace

TEST_P(TiledConvolution, EveryWindow) {
  for (const Layer& l : {Layer{{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
                         {{3, 2, 7, 5}, {17, 2, 3, 3}, {.stride = 2, .padding = 1}},
                         {{1, 5, 9, 8}, {16, 5, 1, 1}, {.stride = 3}},
                         {{2, 2, 4, 3}, {2, 2, 4, 5}, {.stride = 2, .padding = 3}}})
    for (const MemoryFormat& format : {kNCHW, kNHWC, kCHWN}) expect_convolution(l, format);
}

// 17 channels and more than 131 * 64 pixels select tiles of 64 x 64; the last ones are partial.
TEST_P(TiledConvolution, WideTiles) {
  expect_convolution({{1, 17, 93, 93}, {17, 17, 1, 1}, {}}, kNCHW);
}

IN_ANY_ORDER(TiledConvolution);
