// One axis of what becomes of a picture: where along the source each of its pixels comes from.
#pragma once
#include <algorithm>
#include <cmath>
#include "core/check.h"

namespace bellows {

enum class Outside { zeros, reflect };  // what padding shows

// Pixel i shows cell first + i of a grid over the source, or if mirrored the one that many from the
// other end; cell g covers [begin + g * step, begin + (g + 1) * step). Cells beyond the grid are
// padding.
class Axis {
 public:
  explicit Axis(int64_t length) : high_(length), cells_(length), size_(length) {}

  int64_t size() const { return size_; }
  // May begin before the first pixel and end after the last: then it is padded.
  void crop(int64_t at, int64_t size, Outside outside) {
    if (mirrored_) at = size_ - at - size;
    if (at < 0 || at + size > size_) {
      cut();
      outside_ = outside;
    }
    first_ += at;
    size_ = size;
  }
  // What was cropped away is not looked at again, as if the crop had been stored in between.
  void resize(int64_t size) {
    cut();
    constexpr double tiny = 1e-6;  // of a pixel, by which a sum of steps may miss an edge
    low_ = std::max(low_, static_cast<int64_t>(std::floor(begin_ + tiny)));
    high_ = std::min(high_, static_cast<int64_t>(std::ceil(begin_ + cells_ * step_ - tiny)));
    step_ *= static_cast<double>(size_) / static_cast<double>(size);
    cells_ = size_ = size;
  }
  void mirror() { mirrored_ = !mirrored_; }

  // The cell that a pixel shows; -1: black.
  int64_t cell(int64_t i) const {
    const int64_t g = first_ + (mirrored_ ? size_ - 1 - i : i);
    if (g >= 0 && g < cells_) return g;
    if (outside_ == Outside::zeros) return -1;
    const int64_t period = std::max<int64_t>(1, 2 * (cells_ - 1));
    const int64_t there = (g % period + period) % period;
    return std::min(there, period - there) % cells_;
  }
  double centre(int64_t cell) const { return begin_ + (double(cell) + .5) * step_; }
  double step() const { return step_; }  // source pixels per pixel
  int64_t low() const { return low_; }   // source pixels that may be looked at: low <= x < high
  int64_t high() const { return high_; }
  bool is_source() const {
    return low_ == 0 && begin_ == 0 && step_ == 1 && first_ == 0 && size_ == high_ &&
           size_ == cells_ && !mirrored_;
  }

 private:
  // Makes the grid as small as the crop of it.
  void cut() {
    CHECK(first_ >= 0 && first_ + size_ <= cells_,
          "the picture has padding already, which cannot be resized or padded again: put what pads "
          "behind what resizes");
    begin_ += double(first_) * step_;
    cells_ = size_;
    first_ = 0;
  }

  int64_t low_ = 0, high_;
  double begin_ = 0, step_ = 1;
  int64_t cells_, first_ = 0, size_;
  bool mirrored_ = false;
  Outside outside_ = Outside::zeros;
};

}  // namespace bellows
