// Recipe: the transforms of a list that are left to a device, as plain data for a kernel.
#pragma once
#include "core/base/philox.h"
#include "data/images/colors.h"
#include "data/images/frame.h"

namespace bellows {

// Random key of one sample in one epoch, for the transform at index `place` of the list.
HD inline RngKey augment_key(uint64_t seed, int64_t epoch, int64_t sample, int place) {
  return {.seed = seed,
          .purpose = Purpose::augment,
          .site = uint64_t(sample) << 8 | uint64_t(place),
          .step = uint64_t(epoch)};
}

// A transform that a kernel can do as well as the host. Both run this code with the same random
// values, so the image is the same wherever it is made.
struct Edit {
  enum class Kind { nothing, levels, crop, center, flip, cutout };  // levels: changes levels only
  Kind kind = Kind::nothing;
  int64_t size = 0;     // side of the square
  int64_t padding = 0;  // padding on each side, before the crop
  Outside outside = Outside::zeros;
  double probability = 0;
  int place = 0;  // index in the list of transforms

  bool is_random() const {
    return kind == Kind::crop || kind == Kind::flip || kind == Kind::cutout;
  }
  HD void apply(Frame& frame, const RngKey& key) const {
    const Philox rng(key);
    const int64_t height = frame.height(), width = frame.width();
    if (kind == Kind::crop)
      frame.crop({cut(height, rng, 0), cut(width, rng, 1), size, size}, outside);
    if (kind == Kind::center) frame.crop_center(size, size);
    if (kind == Kind::flip) frame.mirror(rng.uniform(0) < probability);
    if (kind == Kind::cutout)
      frame.erase(
          around(int64_t(rng.below(height, 0)), height, int64_t(rng.below(width, 1)), width));
  }

 private:
  // Random start of a crop along an axis.
  HD int64_t cut(int64_t length, const Philox& rng, uint64_t index) const {
    return int64_t(rng.below(length + 2 * padding - size + 1, index)) - padding;
  }
  // Returns a square around a pixel, clipped to the image.
  HD Rectangle around(int64_t y, int64_t height, int64_t x, int64_t width) const {
    const int64_t top = y - size / 2, left = x - size / 2;
    const int64_t from_top = std::max<int64_t>(0, top), from_left = std::max<int64_t>(0, left);
    return {from_top, from_left, std::min(height, top + size) - from_top,
            std::min(width, left + size) - from_left};
  }
};

struct Recipe {
  static constexpr int kMost = 8;

  uint64_t seed = 0;
  int64_t epoch = 0;
  int count = 0;
  Edit edits[kMost] = {};
  Levels levels = {};

  // Returns the source positions for a sample whose image is height x width.
  HD Frame frame(int64_t sample, int64_t height, int64_t width) const {
    Frame made(height, width);
    for (int i = 0; i < count; ++i)
      edits[i].apply(made, augment_key(seed, epoch, sample, edits[i].place));
    return made;
  }
};

}  // namespace bellows
