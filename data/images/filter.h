// The weights of resampling along one axis, made once per picture.
#pragma once
#include <cstdint>
#include <vector>
#include "data/images/axis.h"

namespace bellows {

// Which pixels of the source there are, along one axis.
struct Held {
  int64_t begin = 0, size = 0;  // in pixels as they are held
  int64_t reduced = 1;          // each stands for so many of the source's
};

// Of the held pixels those that any pixel of the axis looks at, begin <= x < end, and how many one
// looks at most. There are none if all is black.
struct Looked {
  int64_t begin = 0, end = 0, taps = 1;
};
Looked looked_at(const Axis& axis, const Held& held);

// For each pixel of an axis, the held pixels that it is the weighted mean of: a triangle of two
// source pixels width, or two of its own where it is the larger one, as in Pillow and torchvision.
// All have equally many taps, some of weight 0, so that a loop over pixels has no branch in it.
class Filter {
 public:
  Filter(const Axis& axis, const Held& held);

  int64_t taps() const { return looked_.taps; }
  // Of each pixel: which tap is the first, and how much each counts; nothing if it is black.
  const int32_t* firsts() const { return firsts_.data(); }
  const float* weights(int64_t i) const { return &weights_[i * taps()]; }
  int64_t begin() const { return looked_.begin; }
  int64_t end() const { return looked_.end; }

 private:
  Looked looked_;
  std::vector<int32_t> firsts_;
  std::vector<float> weights_;  // (size, taps)
};

}  // namespace bellows
