// center_crop: a square from the middle.
#include "core/visitor.h"
#include "data/transform.h"

namespace bellows {

namespace {

struct CenterCropOptions {
  int64_t size = 224;
};
void visit(Visitor& v, CenterCropOptions& o) {
  v("size", o.size, "of the sides of the square", {.min = 1, .max = 1 << 14});
}

class CenterCrop : public Transform {
 public:
  explicit CenterCrop(int64_t size) : size_(size) {}
  void apply(Picture& picture, const RngKey&) const override { picture.crop_centre(size_, size_); }
  Shape shape_of(const Shape& in) const override { return {in[0], size_, size_}; }

 private:
  int64_t size_;
};

}  // namespace

static std::shared_ptr<const Transform> make_center_crop(const CenterCropOptions& o,
                                                         const DatasetInfo&) {
  return std::make_shared<CenterCrop>(o.size);
}

static const AddEntry<MakeTransform> entry("center_crop", "a square from the middle",
                                           &make_center_crop);

}  // namespace bellows
