// The weights of resampling along one axis, made once per picture.
#pragma once
#include <cstdint>
#include <span>
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
class Filter {
 public:
  Filter(const Axis& axis, const Held& held);

  struct Taps {
    int64_t first;                   // from the first that is held
    std::span<const float> weights;  // sum 1; empty: black
  };
  Taps operator[](int64_t i) const {
    return {taps_[i].first, std::span(weights_).subspan(taps_[i].at, taps_[i].count)};
  }
  // All that any of them looks at: begin <= x < end.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  bool mixes() const { return mixes_; }  // some pixel is the mean of several

 private:
  struct Range {
    int64_t first, at, count;
  };
  void add(double centre, double reach, int64_t low, int64_t high);

  std::vector<Range> taps_;
  std::vector<float> weights_;
  int64_t begin_ = 0, end_ = 0;
  bool mixes_ = false;
};

}  // namespace bellows
