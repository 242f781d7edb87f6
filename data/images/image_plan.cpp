#include "data/images/image_plan.h"
#include "data/images/filter.h"
#include "data/images/frame.h"

namespace bellows {

void ImagePlan::refuse_hole() const {
  CHECK(!hole_,
        "the image has a hole already: put one cutout after the transforms that crop, resize or "
        "flip");
}

void ImagePlan::crop(const Rectangle& part, Outside outside) {
  refuse_hole();
  const bool pads = part.top < 0 || part.left < 0 || part.top + part.height > height() ||
                    part.left + part.width > width();
  if (pads && colors) colors_of_padding_ = Colors();
  rows_.crop(part.top, part.height, outside);
  columns_.crop(part.left, part.width, outside);
}

void ImagePlan::recolor(const Colors& next) {
  colors = colors.value_or(Colors()).then(next);
  if (colors_of_padding_) colors_of_padding_ = colors_of_padding_->then(next);
}

void ImagePlan::crop_center(int64_t height, int64_t width) {
  CHECK(height <= this->height() && width <= this->width(), "the image, ", shape(),
        ", is smaller than the ", height, "x", width,
        " to be cut out of it; resize it first (random_crop pads in training only)");
  crop({middle(this->height(), height), middle(this->width(), width), height, width});
}

void ImagePlan::resize(int64_t height, int64_t width) {
  refuse_hole();
  rows_.resize(height);
  columns_.resize(width);
}

void ImagePlan::resize_short_side(int64_t size) {
  const int64_t shorter = std::min(height(), width());
  resize(size * height() / shorter, size * width() / shorter);
}

void ImagePlan::mirror(bool yes) {
  refuse_hole();
  if (yes) columns_.mirror();
}

void ImagePlan::erase(const Rectangle& hole) {
  refuse_hole();
  hole_ = hole;
}

// Returns begin and size of the source pixels that an axis reads: at least one, because a decoder
// cannot return an empty image. If all output is black, none is read.
static std::pair<int64_t, int64_t> part_of(const Axis& axis) {
  const ReadRange range = read_range(axis, {.size = axis.high()});
  if (range.begin >= range.end) return {0, 1};
  return {range.begin, range.end - range.begin};
}

View ImagePlan::view() const {
  const auto [top, height] = part_of(rows_);
  const auto [left, width] = part_of(columns_);
  return {{top, left, height, width}, std::min(rows_.step(), columns_.step())};
}

}  // namespace bellows
