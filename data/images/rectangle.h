// Rectangle: a part of an image, in pixels.
#pragma once
#include <cstdint>
#include "core/base/half.h"

namespace bellows {

struct Rectangle {
  int64_t top = 0, left = 0, height = 0, width = 0;

  HD bool contains(int64_t y, int64_t x) const {
    return y >= top && y < top + height && x >= left && x < left + width;
  }
};

}  // namespace bellows
