// One axis of what becomes of a picture: where along the source each of its pixels comes from.
#pragma once
#include <algorithm>
#include <cmath>
#include "core/base/check.h"
#include "data/images/cells.h"

namespace bellows {

// Cells of a grid over the source: cell g covers [begin + g * step, begin + (g + 1) * step).
class Axis {
 public:
  explicit Axis(int64_t length) : high_(length), cells_(length) {}

  int64_t size() const { return cells_.size(); }
  // May begin before the first pixel and end after the last: then it is padded.
  void crop(int64_t at, int64_t size, Outside outside) {
    if (!cells_.holds(at, size)) refuse_padding();
    cells_.crop(at, size, outside);
  }
  // What was cropped away is not looked at again, as if the crop had been stored in between.
  void resize(int64_t size) {
    refuse_padding();
    cells_.cut();
    begin_ += double(cells_.begin()) * step_;
    constexpr double tiny = 1e-6;  // of a pixel, by which a sum of steps may miss an edge
    const double end = begin_ + double(cells_.count()) * step_;
    low_ = std::max(low_, static_cast<int64_t>(std::floor(begin_ + tiny)));
    high_ = std::min(high_, static_cast<int64_t>(std::ceil(end - tiny)));
    step_ *= static_cast<double>(cells_.count()) / static_cast<double>(size);
    cells_.replace(size);
  }
  void mirror() { cells_.mirror(); }

  int64_t cell(int64_t i) const { return cells_.cell(i); }  // that a pixel shows; -1: black
  double centre(int64_t cell) const { return begin_ + (double(cell) + .5) * step_; }
  double step() const { return step_; }  // source pixels per pixel
  int64_t low() const { return low_; }   // source pixels that may be looked at: low <= x < high
  int64_t high() const { return high_; }
  bool is_source() const { return low_ == 0 && begin_ == 0 && step_ == 1 && cells_.are_all(high_); }

 private:
  void refuse_padding() const {
    CHECK(!cells_.padded(),
          "the picture has padding already, which cannot be resized or padded again: put what pads "
          "behind what resizes");
  }

  int64_t low_ = 0, high_;
  double begin_ = 0, step_ = 1;
  Cells cells_;
};

}  // namespace bellows
