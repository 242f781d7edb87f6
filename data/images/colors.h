// Maps of pixel values: Levels per channel, Colors between channels.
#pragma once
#include <algorithm>
#include <cmath>
#include "core/base/dtype.h"

namespace bellows {

inline constexpr int kMaxChannels = 4;

// Maps a byte to the value pixel * scale + shift, per channel.
struct Levels {
  static constexpr float kByte = 1.f / 255;
  float scale[kMaxChannels] = {kByte, kByte, kByte, kByte};  // initially maps to [0, 1]
  float shift[kMaxChannels] = {};

  // Explicit fma gives the same bits on every device, whether or not a compiler contracts.
  HD float at(int channel, float pixel) const {
    return std::fma(pixel, scale[channel], shift[channel]);
  }
  bool operator==(const Levels&) const = default;
};

// Maps bytes (r, g, b) to matrix * (r, g, b) + shift, clamped to [0, 255], then rotates the hue.
struct Colors {
  float matrix[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  float shift[3] = {};
  float turn = 0;  // rotation of the hue, in full circles

  // Returns this map followed by `next`. Neither map may rotate the hue.
  Colors then(const Colors& next) const {
    Colors both;
    for (int i = 0; i < 3; ++i) {
      both.shift[i] = next.shift[i];
      for (int k = 0; k < 3; ++k) both.shift[i] += next.matrix[i][k] * shift[k];
      for (int j = 0; j < 3; ++j) {
        both.matrix[i][j] = 0;
        for (int k = 0; k < 3; ++k) both.matrix[i][j] += next.matrix[i][k] * matrix[k][j];
      }
    }
    return both;
  }
  // Returns one channel, without the rotation of the hue.
  float at(int channel, float r, float g, float b) const {
    const float* const m = matrix[channel];
    return std::clamp(m[0] * r + m[1] * g + m[2] * b + shift[channel], 0.f, 255.f);
  }
};

// Rotates the hue of a color in place, as in HSV: value and saturation do not change. A channel is
// value - spread * clamp(min(s, 4 - s), 0, 1), where s in [0, 6) is its phase in sixths of the
// circle; the phases of the channels are two sixths apart.
inline void turn_hue(float turn, float& r, float& g, float& b) {
  const float value = std::max({r, g, b}), spread = value - std::min({r, g, b});
  if (spread == 0) return;
  const float hue = 6 * turn + (value == r   ? (g - b) / spread
                                : value == g ? (b - r) / spread + 2
                                             : (r - g) / spread + 4);
  const auto channel = [&](float start) {
    const float sixths = (start + hue) - 6 * std::floor((start + hue) / 6);
    return value - spread * std::clamp(std::min(sixths, 4 - sixths), 0.f, 1.f);
  };
  r = channel(5);
  g = channel(3);
  b = channel(1);
}

}  // namespace bellows
