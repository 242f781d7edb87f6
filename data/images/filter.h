// Resampling along one axis of an image: Axis maps output pixels to source pixels, Filter holds
// their weights, computed once per image.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>
#include "core/base/check.h"
#include "data/images/frame.h"

namespace bellows {

// Output pixels show cells of a grid over the source: cell g covers the source pixels
// [begin + g * step, begin + (g + 1) * step). Throws Error(Exit::usage) for a second padding, and
// for resizing what is padded.
class Axis {
 public:
  explicit Axis(int64_t length) : high_(length), cells_(length) {}

  int64_t size() const { return cells_.size(); }
  // A range that begins before the first pixel or ends after the last one is padded.
  void crop(int64_t at, int64_t size, Outside outside) {
    if (!cells_.holds(at, size)) refuse_padding();
    cells_.crop(at, size, outside);
  }
  // Does not read pixels that were cropped away, as if the crop had been stored in between.
  void resize(int64_t size) {
    refuse_padding();
    cells_.cut();
    begin_ += double(cells_.begin()) * step_;
    constexpr double tiny = 1e-6;  // pixels; rounding error of a sum of steps at an edge
    const double end = begin_ + double(cells_.count()) * step_;
    low_ = std::max(low_, static_cast<int64_t>(std::floor(begin_ + tiny)));
    high_ = std::min(high_, static_cast<int64_t>(std::ceil(end - tiny)));
    step_ *= static_cast<double>(cells_.count()) / static_cast<double>(size);
    cells_.replace(size);
  }
  void mirror() { cells_.mirror(); }

  int64_t cell(int64_t i) const { return cells_.cell(i); }  // cell of output pixel i; -1: black
  double center(int64_t cell) const { return begin_ + (double(cell) + .5) * step_; }
  double step() const { return step_; }  // source pixels per output pixel
  int64_t low() const { return low_; }   // source pixels that may be read: low <= x < high
  int64_t high() const { return high_; }
  bool is_source() const { return low_ == 0 && begin_ == 0 && step_ == 1 && cells_.are_all(high_); }

 private:
  void refuse_padding() const {
    CHECK(
        !cells_.padded(),
        "the image has padding already, which cannot be resized or padded again: put the transform "
        "that pads after those that resize");
  }

  int64_t low_ = 0, high_;
  double begin_ = 0, step_ = 1;
  Cells cells_;
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
