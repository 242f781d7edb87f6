// resize: bilinear and antialiased, to a square or with the aspect ratio kept.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct ResizeOptions {
  int64_t size = 256;
  bool square = false;
};
void visit(Visitor& v, ResizeOptions& o) {
  v("size", o.size, "length of the shorter side, or of both", {.min = 1, .max = 1 << 14});
  v("square", o.square, "both sides get that size, without keeping the aspect ratio");
}

Transform make_resize(const ResizeOptions& o, const DatasetInfo&) {
  return {[o](ImagePlan& image, TransformMode, const RngKey&) {
    o.square ? image.resize(o.size, o.size) : image.resize_short_side(o.size);
  }};
}

}  // namespace

static const AddTransform resize_entry("resize", "bilinear, antialiased", TransformPhase::resize,
                                       &make_resize);

}  // namespace bellows
