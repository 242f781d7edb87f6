// random_flip: mirrors an image left to right, with a probability of 0.5 by default.
//
// alternate: the choice is random in the first epoch and inverted in every second one, so that two
// consecutive epochs show both versions of each image (Jordan, "94% on CIFAR-10 in 3.29 seconds",
// 2024).
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct RandomFlipOptions {
  double probability = 0.5;
  bool alternate = false;
};
void visit(Visitor& v, RandomFlipOptions& o) {
  v("probability", o.probability, "that an image is mirrored", {.min = 0, .max = 1});
  v("alternate", o.alternate, "random in the first epoch, then inverted from epoch to epoch");
}

}  // namespace

static TransformPtr make_random_flip(const RandomFlipOptions& o, const DatasetInfo&) {
  return std::make_shared<EditTransform>(
      Edit{.kind = Edit::Kind::flip, .probability = o.probability, .alternate = o.alternate});
}

static const AddEntry<MakeTransform> random_flip_entry("random_flip", "left to right, at random",
                                                       &make_random_flip);

}  // namespace bellows
