// Filter: weights of resampling along one axis, computed once per image.
#pragma once
#include <cstdint>
#include <vector>
#include "data/images/axis.h"

namespace bellows {

// Pixels of the source that are in memory, along one axis.
struct SourceRange {
  int64_t begin = 0, size = 0;  // in held pixels
  int64_t reduced = 1;          // source pixels per held pixel
};

// Range of held pixels that the axis reads, begin <= x < end, and the largest number (taps) that
// one output pixel reads. The range is empty (begin >= end) if all output is black.
struct ReadRange {
  int64_t begin = 0, end = 0, taps = 1;
};
ReadRange read_range(const Axis& axis, const SourceRange& held);

// Each output pixel is a weighted mean of held pixels. The weights are a triangle, two source
// pixels wide or, when downscaling, two output pixels wide (antialiasing), as in Pillow and
// torchvision. All pixels have the same number of taps, some of weight 0, so that loops over pixels
// have no branch.
class Filter {
 public:
  Filter(const Axis& axis, const SourceRange& held);

  int64_t taps() const { return looked_.taps; }
  // Index of each output pixel's first tap, (size); weights of pixel i, (taps), all 0 if black.
  const int32_t* firsts() const { return firsts_.data(); }
  const float* weights(int64_t i) const { return &weights_[i * taps()]; }
  int64_t begin() const { return looked_.begin; }
  int64_t end() const { return looked_.end; }

 private:
  ReadRange looked_;
  std::vector<int32_t> firsts_;
  std::vector<float> weights_;  // (size, taps)
};

}  // namespace bellows
