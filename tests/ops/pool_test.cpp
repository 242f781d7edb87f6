// Pooling beyond the generic suite: the formulas of windows, and NaN.
#include "ops/conv/pool.h"
#include <cmath>
#include "core/tensor/foreach.h"
#include "ops/conv/conv_act_pool.h"
#include "tests/difference.h"
#include "tests/on_device.h"

using namespace bellows;

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

class PoolOnDevice : public OnDevice<> {};

TEST_F(PoolOnDevice, FirstOfEqualsAndNaNWin) {
  const Tensor x = tensor_of<float>({1, 1, 1, 1, NAN, 2, 3, NAN}, {1, 2, 2, 2});
  const Windows whole = Windows::sliding(2, {});
  const auto [y, winner] = kernels::max_pool2d(x, whole, whole);
  const auto [y_, winner_] = kernels::max_pool2d(to(Device::cuda, x), whole, whole);
  EXPECT_EQ(difference(y, y_), 0);
  EXPECT_EQ(difference(winner, winner_), 0);
}

TEST_F(PoolOnDevice, AfterAFusedConvolutionNaNStaysAndReluStopsTheRest) {
  const Tensor x = tensor_of<float>({-1, -2, -3, -4, -1, NAN, -3, 4}, {2, 1, 2, 2}, Device::cuda);
  const Tensor w = full({1, 1, 1, 1}, 1, DType::f32, Device::cuda);
  const Tensor b = zeros({1}, DType::f32, Device::cuda);
  const auto [y, winner] = kernels::conv_act_pool(x, w, b, 0);
  EXPECT_EQ(difference(tensor_of<float>({0, NAN}, {2, 1, 1, 1}), y), 0);
  EXPECT_EQ(difference(full({2, 1, 1, 1}, kernels::kNoWinner), winner), 0);
}
