// random_flip: left and right change places in half of the pictures.
#include "core/visitor.h"
#include "data/transform.h"

namespace bellows {

namespace {

struct RandomFlipOptions {
  double probability = 0.5;
};
void visit(Visitor& v, RandomFlipOptions& o) {
  v("probability", o.probability, "that a picture is mirrored", {.min = 0, .max = 1});
}

class RandomFlip : public RandomTransform {
 public:
  explicit RandomFlip(double probability) : probability_(probability) {}
  void apply(Picture& picture, const RngKey& key) const override {
    if (Philox(key).uniform(0) < probability_) picture.mirror();
  }

 private:
  double probability_;
};

}  // namespace

static std::shared_ptr<const Transform> make_random_flip(const RandomFlipOptions& o,
                                                         const DatasetInfo&) {
  return std::make_shared<RandomFlip>(o.probability);
}

static const AddEntry<MakeTransform> entry("random_flip", "left to right, by chance",
                                           &make_random_flip);

}  // namespace bellows
