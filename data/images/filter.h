// Resampling along one axis of an image: Axis maps output pixels to source pixels, Filter holds
// their weights, computed once per image.
#pragma once
#include <cstdint>
#include <vector>
#include "data/images/frame.h"

namespace bellows {

// One axis of a resampled image. Its cells are a grid over the source: cell g covers the source
// pixels [low + g * step, low + (g + 1) * step).
struct Axis {
  Cells cells;        // cells of the output pixels
  int64_t low, high;  // source pixels that may be read: low <= x < high
  double step;        // source pixels per cell

  double center(int64_t cell) const { return double(low) + (double(cell) + .5) * step; }
};

// Pixels of the source that are in memory, along one axis.
struct SourceRange {
  int64_t begin = 0, size = 0;  // counted in pixels as held: source pixels / reduced
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

  int64_t taps() const { return range_.taps; }
  // Index of each output pixel's first tap, (size); weights of pixel i, (taps), all 0 if black.
  const int32_t* firsts() const { return firsts_.data(); }
  const float* weights(int64_t i) const { return &weights_[i * taps()]; }
  int64_t begin() const { return range_.begin; }
  int64_t end() const { return range_.end; }

 private:
  ReadRange range_;
  std::vector<int32_t> firsts_;
  std::vector<float> weights_;  // (size, taps)
};

}  // namespace bellows
