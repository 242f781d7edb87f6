// ImagePlan: description of a transformed image, without its pixels. Transforms edit it one after
// the other; then write_image applies all edits in one pass. So a list of transforms costs one pass
// over the pixels, and a JPEG decoder knows beforehand which part of the image will be read.
#pragma once
#include <optional>
#include "data/images/colors.h"
#include "data/images/filter.h"
#include "data/images/sample.h"

namespace bellows {

// The edits of Frame (crop, padding, flip, hole), after one resize and before colors and levels.
class ImagePlan : public Frame {
 public:
  explicit ImagePlan(const Shape& source)
      : Frame(source[1], source[2]), source_(source), part_{0, 0, source[1], source[2]} {}

  int64_t channels() const { return source_[0]; }
  Shape shape() const { return {channels(), height(), width()}; }

  // Resizes a part of the source: bilinear, antialiased when downscaling (data/images/filter.h), as
  // if only the part had been stored. Must be the first edit.
  void resize(const Rectangle& part, int64_t height, int64_t width);
  void resize(int64_t height, int64_t width) { resize(part_, height, width); }
  void resize_short_side(int64_t size);  // scales the longer side in proportion

  std::optional<Colors> colors;  // applied to bytes and to the padding, before levels
  Levels levels;                 // per channel; initially to [0, 1]

  Axis row_axis() const { return axis(rows, part_.top, part_.height, resized_height_); }
  Axis column_axis() const { return axis(columns, part_.left, part_.width, resized_width_); }
  View view() const;  // region of the source that is read
  // True if the pixels, before levels and the hole, are those of the source.
  bool is_source() const;
  bool levels_only() const { return is_source() && hole.height == 0; }
  bool bytes_only() const { return levels == Levels() && hole.height == 0; }

 private:
  static Axis axis(const Cells& cells, int64_t begin, int64_t size, int64_t resized) {
    return {cells, begin, begin + size, double(size) / double(resized)};
  }

  Shape source_;
  Rectangle part_;
  int64_t resized_height_ = part_.height, resized_width_ = part_.width;
};

// ---- crop, resize, flip, colors and levels in one pass over the pixels

// Writes image.shape() values to `out`, as one image of a batch in `format`. Thread-safe.
void write_image(const ImagePlan& image, const Sample& sample, float* out,
                 const MemoryFormat& format = kNCHW);
// As write_image(), but in bytes rounded to nearest, without levels and hole. Thread-safe.
void write_bytes(const ImagePlan& image, const Sample& sample, uint8_t* out,
                 const MemoryFormat& format = kNCHW);
// Returns (H, W, C) bytes, as write_bytes() does.
inline std::vector<uint8_t> interleaved_bytes(const ImagePlan& image, const Sample& sample) {
  std::vector<uint8_t> bytes(image.shape().numel());
  write_bytes(image, sample, bytes.data(), kNHWC);
  return bytes;
}

}  // namespace bellows
