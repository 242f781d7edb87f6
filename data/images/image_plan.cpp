#include "data/images/image_plan.h"

namespace bellows {

void ImagePlan::resize(const Rectangle& part, int64_t height, int64_t width) {
  static_cast<Frame&>(*this) = Frame(height, width);
  part_ = part;
  resized_height_ = height, resized_width_ = width;
}

void ImagePlan::resize_short_side(int64_t size) {
  const int64_t shorter = std::min(height(), width());
  resize(size * height() / shorter, size * width() / shorter);
}

bool ImagePlan::is_source() const {
  const bool whole = part_.height == source_[1] && part_.width == source_[2];
  return whole && rows.are_all(source_[1]) && columns.are_all(source_[2]) && !colors;
}

// Returns begin and size of the source pixels that an axis reads: at least one, because a decoder
// cannot return an empty image. If all output is black, none is read.
static std::pair<int64_t, int64_t> part_of(const Axis& axis) {
  const ReadRange range = read_range(axis, {.size = axis.high});
  if (range.begin >= range.end) return {0, 1};
  return {range.begin, range.end - range.begin};
}

View ImagePlan::view() const {
  const Axis down = row_axis(), across = column_axis();
  const auto [top, height] = part_of(down);
  const auto [left, width] = part_of(across);
  return {{top, left, height, width}, std::min(down.step, across.step)};
}

}  // namespace bellows
