// Sample: the pixels of one image and its label, whole or in part. DatasetInfo: what all samples of
// a data set have in common, images or not.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include "core/base/dtype.h"
#include "core/tensor/shape.h"
#include "data/images/frame.h"

namespace bellows {

// An array that each sample has.
struct Field {
  DType dtype;
  Shape shape;          // shape of one sample
  bool varies = false;  // axis 0 differs from sample to sample; `shape` has the longest
};

// A column of a table that is an input: a number, standardized, or one of several categories, which
// takes one place for each.
struct Column {
  std::string name;
  double mean = 0, std = 1;
  std::vector<std::string> categories = {};  // empty: a number
};

struct DatasetInfo {
  // Images: u8, (C, H, W); H and W are 0 if they differ. Tokens: i64. Values: f32.
  Field input;
  // Classes: i64, of any shape; -1 is left out of losses and metrics. Values: f32.
  Field target = {DType::i64, {}};
  int64_t classes = 0;                     // classes are in [0, classes); 0: the target has values
  std::vector<std::string> names = {};     // class names; empty: "0", "1" and so on
  std::string unit = "images";             // unit of `ips`
  int64_t units = 1;                       // units per sample; if lengths vary, its length
  std::vector<float> mean = {}, std = {};  // for pixels scaled to [0, 1], per channel
  std::vector<Column> columns = {};        // columns of a table

  bool images() const { return input.dtype == DType::u8; }
  // Returns the shape of a model's output for one sample: scores of the classes, or values.
  Shape output() const {
    Shape shape = target.shape;
    if (classes || shape.empty()) shape.push_back(classes ? classes : 1);
    return shape;
  }
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
  int64_t top = 0, left = 0, height = 0, width = 0;  // position and size, in decoded pixels
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
