// Sample: the pixels of one image and its label, whole or in part.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>
#include "core/tensor/shape.h"
#include "data/images/rectangle.h"

namespace bellows {

// What will be looked at of a picture, and how many of its pixels become one along an axis, where
// they are fewest.
struct View {
  Rectangle part;
  double step = 1;
};
using ViewOf = std::function<View(const Shape& picture)>;

// The pixels that a decoder made of a picture: a part of it, maybe reduced.
struct Part {
  int64_t top = 0, left = 0, height = 0, width = 0;  // in pixels as they are here
  int64_t reduced = 1;       // each stands for reduced x reduced of the picture's
  bool interleaved = false;  // (height, width, C), not (C, height, width)
};

// Points into the data set, or into the scratch of whoever asked: valid until either changes.
struct Sample {
  const uint8_t* pixels = nullptr;
  Shape shape;  // (C, H, W) of the whole picture
  int64_t label = 0;
  std::optional<Part> part = {};  // none: the pixels are all of them, as (C, H, W)
};

// A sample as the file that it is decoded from: see data/images/image_file.h.
struct EncodedSample {
  std::vector<uint8_t> file;
  int64_t label = 0;
};

// What a decoder may use while it makes one sample. Each thread brings its own.
using Scratch = std::vector<uint8_t>;

}  // namespace bellows
