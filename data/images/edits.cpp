// Transforms that are one Edit in training and another in evaluation.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

Transform edited_by(const Edit& training, const Edit& evaluation = {}) {
  const auto apply = [=](ImagePlan& image, TransformMode mode, const RngKey& key) {
    const Edit& e = mode == TransformMode::training ? training : evaluation;
    const int64_t side = std::min(image.height(), image.width());
    CHECK(e.kind != Edit::Kind::crop || side + 2 * e.padding >= e.size, "a side of ", side,
          " with padding of ", e.padding, " is shorter than the crop of ", e.size,
          "; resize it first");
    CHECK(e.kind != Edit::Kind::center || side >= e.size, "the image, ", image.shape(),
          ", is smaller than the ", e.size, "x", e.size,
          " to be cut out of it; resize it first (random_crop pads in training only)");
    e.apply(image, key);
  };
  return {apply, training.is_random(), {training, evaluation}};
}

template <int64_t side> struct SquareOptions { int64_t size = side; };
template <int64_t side> void visit(Visitor& v, SquareOptions<side>& o) {
  v("size", o.size, "side of the square", {.min = 1, .max = 1 << 14});
}

Transform make_center_crop(const SquareOptions<224>& o, const DatasetInfo&) {
  const Edit edit{.kind = Edit::Kind::center, .size = o.size};
  return edited_by(edit, edit);
}

// Part of the square may be outside the image. Source: DeVries and Taylor, "Improved regularization
// of convolutional neural networks with cutout", 2017.
Transform make_cutout(const SquareOptions<8>& o, const DatasetInfo&) {
  return edited_by(Edit{.kind = Edit::Kind::cutout, .size = o.size});
}

struct RandomCropOptions : SquareOptions<32> {
  int64_t padding = 0;
  Outside padding_mode = Outside::zeros;
};
void visit(Visitor& v, RandomCropOptions& o) {
  visit(v, static_cast<SquareOptions<32>&>(o));
  v("padding", o.padding, "on each side, before the crop", {.min = 0, .max = 1 << 14});
  v("padding_mode", o.padding_mode, {"zeros", "reflect"}, "black, or the image mirrored");
}
// In evaluation, crops the middle, without padding.
Transform make_random_crop(const RandomCropOptions& o, const DatasetInfo&) {
  return edited_by(Edit{.kind = Edit::Kind::crop,
                        .size = o.size,
                        .padding = o.padding,
                        .outside = o.padding_mode},
                   Edit{.kind = Edit::Kind::center, .size = o.size});
}

struct RandomFlipOptions {
  double probability = 0.5;
};
void visit(Visitor& v, RandomFlipOptions& o) {
  v("probability", o.probability, "that an image is mirrored", {.min = 0, .max = 1});
}
Transform make_random_flip(const RandomFlipOptions& o, const DatasetInfo&) {
  return edited_by(Edit{.kind = Edit::Kind::flip, .probability = o.probability});
}

}  // namespace

static const AddTransform center_crop_entry("center_crop", "a square from the middle",
                                            TransformPhase::crop, &make_center_crop);
static const AddTransform random_crop_entry("random_crop", "a square at random, with padding",
                                            TransformPhase::crop, &make_random_crop);
static const AddTransform random_flip_entry("random_flip", "left to right, at random",
                                            TransformPhase::crop, &make_random_flip);
static const AddTransform cutout_entry("cutout", "a square of zeros at a random place",
                                       TransformPhase::cutout, &make_cutout);

}  // namespace bellows
