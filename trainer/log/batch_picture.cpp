#include "trainer/log/batch_picture.h"
#include <algorithm>
#include <cmath>
#include "core/base/round.h"
#include "core/tensor/copy.h"
#include "data/images/image_file.h"

namespace bellows {

static constexpr int64_t kMostImages = 64;

std::vector<uint8_t> batch_picture(const Tensor& x) {
  const Tensor images = contiguous(cast(to(Device::cpu, x), DType::f32));
  const auto values = images.data<float>();
  const auto [least, most] = std::ranges::minmax(values);
  const float scale = most > least ? 255 / (most - least) : 0;

  const int64_t C = x.dim(1), H = x.dim(2), W = x.dim(3), shown = std::min(x.dim(0), kMostImages);
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(double(shown))));
  const int64_t rows = ceil_div(shown, columns);
  const int64_t height = rows * (H + 1) + 1, width = columns * (W + 1) + 1;
  std::vector<uint8_t> pixels(height * width * 3);
  for (int64_t n = 0; n < shown; ++n)
    for (int64_t i = 0; i < 3 * H * W; ++i) {
      const int64_t c = i % 3, column = i / 3 % W, row = i / 3 / W;
      const float value = values[((n * C + (C < 3 ? 0 : c)) * H + row) * W + column];
      const int64_t py = n / columns * (H + 1) + 1 + row, px = n % columns * (W + 1) + 1 + column;
      pixels[(py * width + px) * 3 + c] =
          static_cast<uint8_t>(std::lround((value - least) * scale));
    }
  return encode_png(pixels.data(), height, width);
}

}  // namespace bellows
