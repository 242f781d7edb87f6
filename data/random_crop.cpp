// random_crop: a square from anywhere in the padded picture. In evaluation from its middle, without
// padding.
#include "core/visitor.h"
#include "data/transform.h"

namespace bellows {

namespace {

struct RandomCropOptions {
  int64_t size = 32, padding = 0;
  Outside padding_mode = Outside::zeros;
};
void visit(Visitor& v, RandomCropOptions& o) {
  v("size", o.size, "of the sides of the square", {.min = 1, .max = 1 << 14});
  v("padding", o.padding, "on each side, before", {.min = 0, .max = 1 << 14});
  v("padding_mode", o.padding_mode, {"zeros", "reflect"}, "black, or the picture mirrored");
}

class RandomCrop : public RandomTransform {
 public:
  explicit RandomCrop(const RandomCropOptions& o) : o_(o) {}
  void apply(Picture& picture, const RngKey& key) const override {
    const Philox rng(key);
    const int64_t top = place(picture.height(), rng, 0), left = place(picture.width(), rng, 1);
    picture.crop({top, left, o_.size, o_.size}, o_.padding_mode);
  }
  void settle(Picture& picture) const override { picture.crop_centre(o_.size, o_.size); }
  Shape shape_of(const Shape& in) const override { return {in[0], o_.size, o_.size}; }

 private:
  int64_t place(int64_t length, const Philox& rng, uint64_t index) const {
    const int64_t places = length + 2 * o_.padding - o_.size + 1;
    CHECK(places > 0, "a side of ", length, " with padding of ", o_.padding,
          " is shorter than the crop of ", o_.size, "; resize it first");
    return int64_t(rng.below(places, index)) - o_.padding;
  }

  RandomCropOptions o_;
};

}  // namespace

static std::shared_ptr<const Transform> make_random_crop(const RandomCropOptions& o,
                                                         const DatasetInfo&) {
  return std::make_shared<RandomCrop>(o);
}

static const AddEntry<MakeTransform> entry("random_crop", "a square at random, with padding",
                                           &make_random_crop);

}  // namespace bellows
