// cutout: a square of zeros, which may hang over the edge. Source: DeVries and Taylor, "Improved
// regularization of convolutional neural networks with cutout", 2017.
#include "core/visitor.h"
#include "data/transform.h"

namespace bellows {

namespace {

struct CutoutOptions {
  int64_t size = 8;
};
void visit(Visitor& v, CutoutOptions& o) {
  v("size", o.size, "of the sides of the square", {.min = 1, .max = 1 << 14});
}

class Cutout : public RandomTransform {
 public:
  explicit Cutout(int64_t size) : size_(size) {}
  void apply(Picture& picture, const RngKey& key) const override {
    const Philox rng(key);
    const auto [top, height] = stretch(picture.height(), int64_t(rng.below(picture.height(), 0)));
    const auto [left, width] = stretch(picture.width(), int64_t(rng.below(picture.width(), 1)));
    picture.erase({top, left, height, width});
  }

 private:
  // Where it begins along an axis and how long it is there.
  std::pair<int64_t, int64_t> stretch(int64_t length, int64_t middle) const {
    const int64_t begin = middle - size_ / 2, end = std::min(length, begin + size_);
    return {std::max<int64_t>(0, begin), end - std::max<int64_t>(0, begin)};
  }

  int64_t size_;
};

}  // namespace

static std::shared_ptr<const Transform> make_cutout(const CutoutOptions& o, const DatasetInfo&) {
  return std::make_shared<Cutout>(o.size);
}

static const AddEntry<MakeTransform> entry("cutout", "a square of zeros somewhere", &make_cutout);

}  // namespace bellows
