// cutout: sets a random square to zero; part of it may be outside the image. Source: DeVries and
// Taylor, "Improved regularization of convolutional neural networks with cutout", 2017.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct CutoutOptions {
  int64_t size = 8;
};
void visit(Visitor& v, CutoutOptions& o) {
  v("size", o.size, "side of the square", {.min = 1, .max = 1 << 14});
}

}  // namespace

static TransformPtr make_cutout(const CutoutOptions& o, const DatasetInfo&) {
  return std::make_shared<EditTransform>(Edit{.kind = Edit::Kind::cutout, .size = o.size});
}

static const AddEntry<MakeTransform> cutout_entry("cutout", "a square of zeros at a random place",
                                                  &make_cutout);

}  // namespace bellows
