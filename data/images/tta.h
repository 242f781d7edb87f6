// Test-time augmentation (TTA): a prediction is the weighted mean over several views of an image.
#pragma once
#include <vector>
#include "data/images/frame.h"

namespace bellows {

enum class Tta { none, mirror, mirror_shift };

struct TtaView {
  double weight = 1;  // in the mean; the weights of all views add up to 1
  int64_t shift = 0;  // pixels down and to the right; missing pixels are reflected
  bool mirrored = false;

  // Applies the view to a ImagePlan or a Frame.
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

}  // namespace bellows
