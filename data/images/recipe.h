// Recipe: the transforms of a list that are left to a device, as plain data for a kernel.
#pragma once
#include "data/images/edit.h"
#include "data/images/levels.h"
#include "data/images/tta.h"

namespace bellows {

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
