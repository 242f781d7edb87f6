// Frame: source position of each pixel of an image under crops, flips and padding. It checks
// nothing, because kernels use it.
#pragma once
#include <algorithm>
#include <cstdint>
#include "core/base/half.h"

namespace bellows {

// A part of an image, in pixels.
struct Rectangle {
  int64_t top = 0, left = 0, height = 0, width = 0;

  HD bool contains(int64_t y, int64_t x) const {
    return y >= top && y < top + height && x >= left && x < left + width;
  }
};

enum class Outside { zeros, reflect };  // content of the padding

// One axis of an image. Pixel i shows cell begin + first + i or, if mirrored, begin + first + size
// - 1 - i. Cells outside [begin, begin + count) are padding.
class Cells {
 public:
  HD explicit Cells(int64_t count) : count_(count), size_(count) {}

  HD int64_t size() const { return size_; }
  // True if the axis shows `count` cells, all and unchanged.
  HD bool are_all(int64_t count) const {
    return begin_ == 0 && first_ == 0 && size_ == count && count_ == count && !mirrored_;
  }

  // A range that begins before the first pixel or ends after the last one is padded, at most once.
  // Padding does not restore cropped pixels.
  HD void crop(int64_t at, int64_t size, Outside outside) {
    const bool pads = at < 0 || at + size > size_;
    if (mirrored_) at = size_ - at - size;
    if (pads) {
      begin_ += first_;
      count_ = size_;
      first_ = 0;
      outside_ = outside;
    }
    first_ += at;
    size_ = size;
  }
  HD void mirror() { mirrored_ = !mirrored_; }

  // Returns the cell of pixel i; -1: black.
  HD int64_t cell(int64_t i) const {
    const int64_t g = first_ + (mirrored_ ? size_ - 1 - i : i);
    if (g >= 0 && g < count_) return begin_ + g;
    if (outside_ == Outside::zeros) return -1;
    const int64_t period = std::max<int64_t>(1, 2 * (count_ - 1));
    const int64_t there = (g % period + period) % period;
    return begin_ + std::min(there, period - there);
  }

 private:
  int64_t begin_ = 0, count_, first_ = 0, size_;
  bool mirrored_ = false;
  Outside outside_ = Outside::zeros;
};

// Returns where the middle `size` of `length` pixels begins. Rounds halves to even, as torchvision
// does.
HD inline int64_t middle(int64_t length, int64_t size) {
  const int64_t rest = length - size;
  return (rest + (rest / 2 & 1)) / 2;
}

struct Frame {
  Cells rows, columns;
  Rectangle hole = {};  // set to zero; empty: none

  HD Frame(int64_t height, int64_t width) : rows(height), columns(width) {}
  HD int64_t height() const { return rows.size(); }
  HD int64_t width() const { return columns.size(); }

  HD void crop(const Rectangle& part, Outside outside = Outside::zeros) {
    rows.crop(part.top, part.height, outside);
    columns.crop(part.left, part.width, outside);
  }
  HD void crop_center(int64_t h, int64_t w) {
    crop({middle(height(), h), middle(width(), w), h, w});
  }
  HD void mirror(bool yes = true) {
    if (yes) columns.mirror();
  }
  HD void erase(const Rectangle& part) { hole = part; }

  // Returns the index of the source of pixel (y, x) in a plane; -1: black.
  HD int64_t source(int64_t y, int64_t x, int64_t source_width) const {
    const int64_t row = rows.cell(y), column = columns.cell(x);
    return row < 0 || column < 0 ? -1 : row * source_width + column;
  }
};

}  // namespace bellows
