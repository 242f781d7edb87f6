// Frame: source position of each pixel of an image, as a kernel computes it. It is a ImagePlan
// without resizing, colors and checks.
#pragma once
#include "data/images/cells.h"
#include "data/images/rectangle.h"

namespace bellows {

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

  HD void crop(const Rectangle& part, Outside outside) {
    rows.crop(part.top, part.height, outside);
    columns.crop(part.left, part.width, outside);
  }
  HD void crop_center(int64_t h, int64_t w) {
    crop({middle(height(), h), middle(width(), w), h, w}, Outside::zeros);
  }
  HD void mirror(bool yes) {
    if (yes) columns.mirror();
  }
  HD void erase(const Rectangle& part) { hole = part; }

  // Index of the source of pixel (y, x) in a plane; -1: black.
  HD int64_t source(int64_t y, int64_t x, int64_t source_width) const {
    const int64_t row = rows.cell(y), column = columns.cell(x);
    return row < 0 || column < 0 ? -1 : row * source_width + column;
  }
};

}  // namespace bellows
