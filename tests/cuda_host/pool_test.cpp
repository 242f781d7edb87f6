// Pooling on the device beyond the generic suite: windows that overlap, leave gaps, lie in the
// padding, or are even.
#include "ops/conv/pool.h"
#include "tests/cuda_host/beside_cpu.h"

using namespace cuda_host;

namespace {

const std::vector<int> kInNCHW = {0, 1, 2, 3}, kInNHWC = {0, 2, 3, 1}, kInCHWN = {1, 2, 3, 0};

struct Windows2d {
  Shape x;
  Windows rows, columns;
  bool slide;  // the only windows that have maxima
};
Windows2d sliding(const Shape& x, const Pool2dOptions& o) {
  return {x, Windows::sliding(x[2], o), Windows::sliding(x[3], o), true};
}
Windows2d even(const Shape& x, int64_t height, int64_t width) {
  return {x, Windows::even(x[2], height), Windows::even(x[3], width), false};
}

std::vector<Windows2d> all_windows() {
  return {sliding({2, 3, 6, 5}, {}),
          sliding({2, 3, 7, 6}, {.kernel = 3, .stride = 2, .padding = 1}),
          sliding({1, 2, 9, 8}, {.kernel = 2, .stride = 3}),
          sliding({3, 1, 5, 5}, {.kernel = 5, .stride = 1, .padding = 2}),
          sliding({1, 1, 1, 1}, {.kernel = 1, .stride = 1}),
          sliding({1, 4, 19, 18}, {.kernel = 17, .stride = 1, .padding = 1}),
          even({2, 3, 7, 5}, 3, 2),
          even({1, 4, 5, 6}, 1, 1),
          even({2, 1, 2, 3}, 4, 5)};
}

void expect_pooling(const Windows2d& p, const std::vector<int>& memory, int64_t gap) {
  const auto& [shape, rows, columns, slide] = p;
  SCOPED_TRACE(cat(shape, " to ", rows.size(), " x ", columns.size()));
  const Tensor x = normal(shape, 1),
               dy = normal({shape[0], shape[1], rows.size(), columns.size()}, 2);
  const auto moved = [&](const Tensor& t) {
    return with_order(on_device(t, DType::f32), memory, gap);
  };
  const Tensor x_ = moved(x), dy_ = moved(dy);
  const double tolerance = tolerance_of(DType::f32);
  if (slide) {
    const auto [y, winner] = kernels::max_pool2d(x, rows, columns);
    const auto [y_, winner_] = kernels::max_pool2d(x_, rows, columns);
    EXPECT_EQ(difference(y, y_), 0);
    EXPECT_EQ(difference(winner, winner_), 0);
    EXPECT_EQ(winner_.dtype(), rows.kernel() * columns.kernel() > 256 ? DType::i32 : DType::u8);
    EXPECT_EQ(y_.strides(), winner_.strides());
    EXPECT_LE(difference(kernels::max_pool2d_backward(dy, winner, shape, rows, columns),
                         kernels::max_pool2d_backward(dy_, winner_, shape, rows, columns)),
              tolerance);
  }
  EXPECT_LE(
      difference(kernels::avg_pool2d(x, rows, columns), kernels::avg_pool2d(x_, rows, columns)),
      tolerance);
  EXPECT_LE(difference(kernels::avg_pool2d_backward(dy, shape, rows, columns),
                       kernels::avg_pool2d_backward(dy_, shape, rows, columns)),
            tolerance);
}

struct Pooling : InAnyOrder {};

}  // namespace

TEST_P(Pooling, EveryWindow) {
  for (const Windows2d& p : all_windows())
    for (const auto& memory : {kInNCHW, kInNHWC, kInCHWN})
      for (const int64_t gap : {1, 2}) expect_pooling(p, memory, gap);
}

// Channels that fill pieces of 16 bytes, and that do not; also where x is not aligned for them. In
// f32 both devices add in the same order. Where windows share no element nothing is added, and the
// gradient has the bits of dy in every dtype.
TEST_P(Pooling, MaximaInPiecesEqualThoseOfTheCpuBitForBit) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const int64_t channels : {16, 12, 5})
      for (const int64_t offset : {0, 1})
        for (const auto& o : {Pool2dOptions{}, {.kernel = 3, .stride = 2, .padding = 1}}) {
          if (is_low(dtype) && o.padding) continue;
          SCOPED_TRACE(cat(dtype, " ", channels, " at ", offset, " kernel ", o.kernel));
          const Windows2d p = sliding({2, channels, 7, 6}, o);
          const Tensor x = contiguous(cast(normal(p.x, 1), dtype), kNHWC);
          const Tensor room({x.numel() + offset}, dtype, Device::cuda);
          const Tensor x_ = room.view(x.shape(), x.strides(), offset);
          kernels::copy(x_, to(Device::cuda, x));
          const auto [y, winner] = kernels::max_pool2d(x, p.rows, p.columns);
          const auto [y_, winner_] = kernels::max_pool2d(x_, p.rows, p.columns);
          EXPECT_EQ(difference(y, y_), 0);
          EXPECT_EQ(difference(winner, winner_), 0);
          EXPECT_EQ(difference(kernels::max_pool2d_backward(y, winner, p.x, p.rows, p.columns),
                               kernels::max_pool2d_backward(y_, winner_, p.x, p.rows, p.columns)),
                    0);
        }
}

TEST_P(Pooling, FirstOfEqualsAndNaNWin) {
  const Tensor x = tensor_of<double>({1, 1, 1, 1, NAN, 2, 3, NAN}, {1, 2, 2, 2});
  const Windows whole = Windows::sliding(2, {});
  const auto [y, winner] = kernels::max_pool2d(x, whole, whole);
  const auto [y_, winner_] = kernels::max_pool2d(on_device(x, DType::f32), whole, whole);
  EXPECT_EQ(difference(y, y_), 0);
  EXPECT_EQ(difference(winner, winner_), 0);
}

// The two formulas agree: window i is listed for position h if and only if it covers h.
TEST(WindowsByFormula, HoldWhatTheyCover) {
  std::vector<std::pair<int64_t, Windows>> all;
  for (int64_t image = 1; image <= 12; ++image) {
    for (int64_t count = 1; count <= 14; ++count)
      all.emplace_back(image, Windows::even(image, count));
    for (int64_t kernel = 1; kernel <= image; ++kernel)
      for (int64_t stride = 1; stride <= 4; ++stride)
        for (int64_t padding = 0; 2 * padding <= kernel; ++padding)
          all.emplace_back(image, Windows::sliding(image, {kernel, stride, padding}));
  }
  for (const auto& [image, windows] : all)
    for (int64_t h = 0; h < image; ++h) {
      const auto holding = windows.containing(int(h));
      for (int64_t i = 0; i < windows.size(); ++i)
        ASSERT_EQ(i >= holding.begin && i < holding.end,
                  windows[i].begin <= h && h < windows[i].end)
            << "window " << i << " of " << windows.size() << ", position " << h << " of " << image;
    }
}

IN_ANY_ORDER(Pooling);
