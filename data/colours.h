// A linear map of colours: bytes (r, g, b) become matrix * (r, g, b) + shift, cut to what a byte
// can hold.
#pragma once
#include <algorithm>

namespace bellows {

struct Colours {
  float matrix[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  float shift[3] = {};

  // This map, then `next`.
  Colours then(const Colours& next) const {
    Colours both;
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
  float at(int channel, float r, float g, float b) const {
    const float* const m = matrix[channel];
    return std::clamp(m[0] * r + m[1] * g + m[2] * b + shift[channel], 0.f, 255.f);
  }
};

}  // namespace bellows
