// The weights of resampling along one axis, made once per picture.
#pragma once
#include <cstdint>
#include <vector>
#include "data/axis.h"

namespace bellows {

// Which pixels of the source there are, along one axis.
struct Held {
  int64_t begin = 0, size = 0;  // in pixels as they are held
  int64_t reduced = 1;          // each stands for so many of the source's
};

// For each pixel of an axis, the held pixels that it is the weighted mean of: a triangle of two
// source pixels width, or two of its own where it is the larger one, as in Pillow and torchvision.
// All have equally many taps, some of weight 0, so that a loop over pixels has no branch in it.
class Filter {
 public:
  Filter(const Axis& axis, const Held& held);

  int64_t taps() const { return taps_; }
  // Of each pixel: which tap is the first, and how much the k-th counts; nothing if it is black.
  const int32_t* firsts() const { return firsts_.data(); }
  const float* weights(int64_t k) const { return &weights_[k * firsts_.size()]; }
  // All that any of them looks at: begin <= x < end.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

 private:
  int64_t taps_ = 1, begin_, end_ = 0;
  std::vector<int32_t> firsts_;
  std::vector<float> weights_;  // (taps, size)
};

}  // namespace bellows
