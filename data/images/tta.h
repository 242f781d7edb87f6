// Test-time augmentation: an answer is the mean over several views of a picture.
#pragma once
#include <vector>
#include "data/images/frame.h"

namespace bellows {

enum class Tta { none, mirror, mirror_shift };

struct TtaView {
  double weight = 1;  // its share in the answer; all of them make 1
  int64_t shift = 0;  // pixels down and to the right; what is missing is reflected
  bool mirrored = false;

  // On a Picture or a Frame.
  template <class Canvas> HD void show(Canvas& canvas) const {
    if (shift) canvas.crop({-shift, -shift, canvas.height(), canvas.width()}, Outside::reflect);
    if (mirrored) canvas.mirror(true);
  }
};

// mirror_shift: the picture counts as much as it does moved by a pixel up and left, and down and
// right, together; each of them as much as its mirror image.
inline std::vector<TtaView> views_of(Tta tta) {
  if (tta == Tta::none) return {{}};
  if (tta == Tta::mirror) return {{.5, 0, false}, {.5, 0, true}};
  return {{.25, 0, false},  {.25, 0, true},   {.125, -1, false},
          {.125, -1, true}, {.125, 1, false}, {.125, 1, true}};
}

}  // namespace bellows
