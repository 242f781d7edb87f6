// random_crop: a random square of the padded image. In evaluation the middle, without padding.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct RandomCropOptions {
  int64_t size = 32, padding = 0;
  Outside padding_mode = Outside::zeros;
};
void visit(Visitor& v, RandomCropOptions& o) {
  v("size", o.size, "side of the square", {.min = 1, .max = 1 << 14});
  v("padding", o.padding, "on each side, before the crop", {.min = 0, .max = 1 << 14});
  v("padding_mode", o.padding_mode, {"zeros", "reflect"}, "black, or the image mirrored");
}

}  // namespace

static TransformPtr make_random_crop(const RandomCropOptions& o, const DatasetInfo&) {
  return std::make_shared<EditTransform>(Edit{.kind = Edit::Kind::crop,
                                              .size = o.size,
                                              .padding = o.padding,
                                              .outside = o.padding_mode},
                                         Edit{.kind = Edit::Kind::center, .size = o.size});
}

static const AddEntry<MakeTransform> random_crop_entry("random_crop",
                                                       "a square at random, with padding",
                                                       &make_random_crop);

}  // namespace bellows
