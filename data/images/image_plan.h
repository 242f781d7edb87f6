// ImagePlan: description of a transformed image, without its pixels. Transforms edit it one after
// the other; then write_image applies all edits in one pass. So a list of transforms costs one pass
// over the pixels, and a JPEG decoder knows beforehand which part of the image will be read.
#pragma once
#include <optional>
#include "data/images/colors.h"
#include "data/images/filter.h"
#include "data/images/sample.h"

namespace bellows {

// Edits that cannot be combined throw Error(Exit::usage): crop, resize, mirror or erase after
// erase(), and resizing or padding again after padding.
class ImagePlan {
 public:
  explicit ImagePlan(const Shape& source)
      : channels_(source[0]), rows_(source[1]), columns_(source[2]) {}

  int64_t channels() const { return channels_; }
  int64_t height() const { return rows_.size(); }
  int64_t width() const { return columns_.size(); }
  Shape shape() const { return {channels_, height(), width()}; }

  // `part` may extend beyond the image, which is padded there.
  void crop(const Rectangle& part, Outside outside = Outside::zeros);
  void crop_center(int64_t height, int64_t width);  // refuses to pad
  // Bilinear, antialiased when downscaling (data/images/filter.h).
  void resize(int64_t height, int64_t width);
  void resize_short_side(int64_t size);  // the longer side in proportion
  void mirror(bool yes = true);          // left to right
  // Sets a rectangle of the output to zero (cutout). One only; later edits must not move it.
  void erase(const Rectangle& hole);

  Levels levels;  // per channel, after `colors`; initially to [0, 1]
  // Applied to bytes, before levels. Their place among the edits matters for black padding only.
  std::optional<Colors> colors;
  void recolor(const Colors& next);  // adds a map to `colors`

  const Axis& rows() const { return rows_; }
  const Axis& columns() const { return columns_; }
  const std::optional<Rectangle>& hole() const { return hole_; }
  // Colors of black padding: the maps that were added after it. nullopt: all, so `colors`.
  const std::optional<Colors>& colors_of_padding() const { return colors_of_padding_; }
  View view() const;  // region of the source that is read
  // True if the pixels, before levels and the hole, are those of the source.
  bool is_source() const { return rows_.is_source() && columns_.is_source() && !colors; }
  bool levels_only() const { return is_source() && !hole_; }
  bool bytes_only() const { return levels == Levels() && !hole_; }

 private:
  void refuse_hole() const;

  int64_t channels_;
  Axis rows_, columns_;
  std::optional<Rectangle> hole_;
  std::optional<Colors> colors_of_padding_;
};

// ---- write_image.cpp: crop, resize, flip, colors and levels in one pass over the pixels

// Writes image.shape() values to `out`, as one image of a batch in `format`. Thread-safe.
void write_image(const ImagePlan& image, const Sample& sample, float* out,
                 const MemoryFormat& format = kNCHW);
// The same in bytes, without levels and hole; rounded to nearest. Thread-safe.
void write_bytes(const ImagePlan& image, const Sample& sample, uint8_t* out,
                 const MemoryFormat& format = kNCHW);
// Returns (H, W, C) bytes, as write_bytes() does.
inline std::vector<uint8_t> interleaved_bytes(const ImagePlan& image, const Sample& sample) {
  std::vector<uint8_t> bytes(image.shape().numel());
  write_bytes(image, sample, bytes.data(), kNHWC);
  return bytes;
}

}  // namespace bellows
