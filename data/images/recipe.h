// Recipe: the transforms of a list that are left to a device, as plain data for a kernel.
#pragma once
#include <vector>
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
  int64_t padding = 0;  // on each side, before the crop
  Outside outside = Outside::zeros;
  double probability = 0;
  bool alternate = false;  // flip: random in the first epoch, then inverted in every second one
  int place = 0;           // index in the list of transforms

  bool is_random() const {
    return kind == Kind::crop || kind == Kind::flip || kind == Kind::cutout;
  }
  // Applies the edit to an ImagePlan or a Frame.
  template <class Canvas> HD void apply(Canvas& canvas, RngKey key) const {
    const bool other_way = alternate && key.step % 2 == 1;
    if (alternate) key.step = 0;
    const Philox rng(key);
    const int64_t height = canvas.height(), width = canvas.width();
    switch (kind) {
      case Kind::crop:
        return canvas.crop({cut(height, rng, 0), cut(width, rng, 1), size, size}, outside);
      case Kind::center:
        return canvas.crop_center(size, size);
      case Kind::flip:
        return canvas.mirror((rng.uniform(0) < probability) != other_way);
      case Kind::cutout:
        return canvas.erase(
            around(int64_t(rng.below(height, 0)), height, int64_t(rng.below(width, 1)), width));
      case Kind::nothing:
      case Kind::levels:
        return;
    }
  }

 private:
  // Random begin of a crop along an axis.
  HD int64_t cut(int64_t length, const Philox& rng, uint64_t index) const {
    return int64_t(rng.below(length + 2 * padding - size + 1, index)) - padding;
  }
  // Square around a pixel, clipped to the image.
  HD Rectangle around(int64_t y, int64_t height, int64_t x, int64_t width) const {
    const int64_t top = y - size / 2, left = x - size / 2;
    const int64_t from_top = std::max<int64_t>(0, top), from_left = std::max<int64_t>(0, left);
    return {from_top, from_left, std::min(height, top + size) - from_top,
            std::min(width, left + size) - from_left};
  }
};

// ---- test-time augmentation (TTA): a prediction is the weighted mean over views of an image

enum class Tta { none, mirror, mirror_shift };

struct TtaView {
  double weight = 1;  // in the mean; the weights of all views add up to 1
  int64_t shift = 0;  // pixels down and to the right; missing pixels are reflected
  bool mirrored = false;

  // Applies the view to an ImagePlan or a Frame.
  template <class Canvas> HD void show(Canvas& canvas) const {
    if (shift) canvas.crop({-shift, -shift, canvas.height(), canvas.width()}, Outside::reflect);
    if (mirrored) canvas.mirror(true);
  }
};

// mirror_shift: the image itself has half of the weight; the other half goes to the image shifted
// one pixel up and left, and one down and right. Each shares its weight with its mirror image.
inline std::vector<TtaView> views_of(Tta tta) {
  if (tta == Tta::none) return {{}};
  if (tta == Tta::mirror) return {{.5, 0, false}, {.5, 0, true}};
  return {{.25, 0, false},  {.25, 0, true},   {.125, -1, false},
          {.125, -1, true}, {.125, 1, false}, {.125, 1, true}};
}

// ---- all together

struct Recipe {
  static constexpr int kMost = 8;

  uint64_t seed = 0;
  int64_t epoch = 0;
  int count = 0;
  Edit edits[kMost] = {};
  Levels levels = {};
  TtaView view = {};  // test-time augmentation, applied last

  // Source positions for a sample whose image is height x width.
  HD Frame frame(int64_t sample, int64_t height, int64_t width) const {
    Frame made(height, width);
    for (int i = 0; i < count; ++i)
      edits[i].apply(made, augment_key(seed, epoch, sample, edits[i].place));
    view.show(made);
    return made;
  }
};

}  // namespace bellows
