// Levels: map from bytes to values, pixel * scale + shift per channel.
#pragma once
#include <cmath>
#include "core/base/dtype.h"

namespace bellows {

inline constexpr int kMaxChannels = 4;

struct Levels {
  static constexpr float kByte = 1.f / 255;
  float scale[kMaxChannels] = {kByte, kByte, kByte, kByte};  // to [0, 1]
  float shift[kMaxChannels] = {};

  // Explicit fma, rounded once: the same bits on every device, whether or not a compiler contracts.
  HD float at(int channel, float pixel) const {
    return std::fma(pixel, scale[channel], shift[channel]);
  }
  bool operator==(const Levels&) const = default;
};

}  // namespace bellows
