// Picture: what is to become of a picture, without its pixels. Transforms edit it one after the
// other; then write_picture does all of it at once.
#pragma once
#include <optional>
#include "data/images/axis.h"
#include "data/images/colours.h"
#include "data/images/sample.h"
#include "data/images/levels.h"

namespace bellows {

class Picture {
 public:
  explicit Picture(const Shape& source)
      : channels_(source[0]), rows_(source[1]), columns_(source[2]) {}

  int64_t channels() const { return channels_; }
  int64_t height() const { return rows_.size(); }
  int64_t width() const { return columns_.size(); }
  Shape shape() const { return {channels_, height(), width()}; }

  // May reach beyond the picture, which is padded there.
  void crop(const Rectangle& part, Outside outside = Outside::zeros);
  void crop_centre(int64_t height, int64_t width);  // refuses to pad
  // Bilinear; a smaller picture takes the mean of the area that a pixel stands for (antialiased).
  void resize(int64_t height, int64_t width);
  void resize_short_side(int64_t size);  // and the other in proportion
  void mirror(bool yes = true);          // left and right
  // Zeros among the numbers that are written; one rectangle, which nothing moves afterwards.
  void erase(const Rectangle& hole);

  Levels levels;                   // of each channel, after `colours`; numbers in [0, 1] at first
  std::optional<Colours> colours;  // of bytes, wherever in the list they were asked for

  const Axis& rows() const { return rows_; }
  const Axis& columns() const { return columns_; }
  const std::optional<Rectangle>& hole() const { return hole_; }
  View view() const;
  // Its pixels are those of the source, before levels and the hole.
  bool is_source() const { return rows_.is_source() && columns_.is_source() && !colours; }
  bool levels_only() const { return is_source() && !hole_; }
  bool bytes_only() const { return levels == Levels() && !hole_; }

 private:
  void refuse_hole() const;

  int64_t channels_;
  Axis rows_, columns_;
  std::optional<Rectangle> hole_;
};

}  // namespace bellows
