#include "ops/norm/batch_norm.h"
#include <gtest/gtest.h>
#include <cmath>
#include "core/tensor/copy.h"

namespace bellows {

// Several groups of rows, some with fewer rows, values far from 0, and a mean that drifts from
// group to group. Sums of squares around 0, or around the first element of all, would lose the
// variance.
TEST(BatchNorm, StatisticsAreThoseOfAllPartsTogether) {
  for (const int64_t channels : {48, 200}) {
    const Shape shape{9, channels, 15, 14};
    const Tensor x(shape, DType::f32);
    const int64_t plane = 15 * 14;
    double mean[200] = {}, var[200] = {};
    for (const bool second : {false, true})
      for (int64_t i = 0; i < x.numel(); ++i) {
        const int64_t n = i / plane / channels, c = i / plane % channels;
        if (!second) x.ptr<float>()[i] = float(5000 + 100 * n + c + std::sin(double(i * i % 1009)));
        const double v = x.ptr<float>()[i], count = double(9 * plane);
        if (second)
          var[c] += (v - mean[c]) * (v - mean[c]) / count;
        else
          mean[c] += v / count;
      }
    for (const MemoryFormat& format : {kNCHW, kNHWC}) {
      const Tensor statistics = kernels::channel_statistics(contiguous(x, format), {});
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_NEAR(statistics.ptr<float>()[c], mean[c], 1e-3) << format.name << " channel " << c;
        EXPECT_NEAR(statistics.ptr<float>()[channels + c] / var[c], 1, 1e-4)
            << format.name << " channel " << c;
      }
    }
  }
}

}  // namespace bellows
