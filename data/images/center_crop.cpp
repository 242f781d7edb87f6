// center_crop: a square from the middle.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct CenterCropOptions {
  int64_t size = 224;
};
void visit(Visitor& v, CenterCropOptions& o) {
  v("size", o.size, "side of the square", {.min = 1, .max = 1 << 14});
}

}  // namespace

static TransformPtr make_center_crop(const CenterCropOptions& o, const DatasetInfo&) {
  const Edit edit{.kind = Edit::Kind::center, .size = o.size};
  return std::make_shared<EditTransform>(edit, edit);
}

static const AddEntry<MakeTransform> center_crop_entry("center_crop", "a square from the middle",
                                                       &make_center_crop);

}  // namespace bellows
