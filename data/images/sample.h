// Sample: the pixels of one image and its label, whole or in part. DatasetInfo: what all samples of
// a data set have in common.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "core/tensor/shape.h"
#include "data/images/frame.h"

namespace bellows {

struct DatasetInfo {
  Shape sample;         // (C, H, W); H and W are 0 if they differ from sample to sample
  int64_t classes = 0;  // labels are in [0, classes)
  std::vector<std::string> names = {};  // class names; empty: "0", "1" and so on
  const char* unit = "images";          // unit of `ips`
  std::vector<float> mean, std;         // for pixels scaled to [0, 1], per channel
};

// Region of the source image that transforms read, and its downscale factor: source pixels per
// output pixel, along the axis where that is smaller.
struct View {
  Rectangle part;
  double step = 1;
};
using ViewOf = std::function<View(const Shape& image)>;

// Pixels that a decoder produced: a part of the image, possibly at a reduced size.
struct Part {
  int64_t top = 0, left = 0, height = 0, width = 0;  // in decoded pixels
  int64_t reduced = 1;       // a decoded pixel stands for reduced x reduced source pixels
  bool interleaved = false;  // (height, width, C), not (C, height, width)
};

// Points into the data set or into the caller's Scratch; valid until that changes.
struct Sample {
  const uint8_t* pixels = nullptr;
  Shape shape;  // (C, H, W) of the whole image
  int64_t label = 0;
  std::optional<Part> part = {};  // none: `pixels` is the whole image, as (C, H, W)
};

// Sample as an encoded file, for decode_image() of data/images/image_file.h.
struct EncodedSample {
  std::vector<uint8_t> file;
  int64_t label = 0;
};

// Buffer that a decoder may use for one sample. One per thread.
using Scratch = std::vector<uint8_t>;

}  // namespace bellows
