// random_resized_crop: a part of the image, of random area and aspect ratio, resized to a square.
// In evaluation: the middle of the image. Source: Szegedy et al., "Going deeper with convolutions",
// CVPR 2015; sampled as in torchvision.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct RandomResizedCropOptions {
  int64_t size = 224;
  double min_scale = 0.08, max_scale = 1, min_ratio = 3. / 4, max_ratio = 4. / 3;
  double eval_share = 0.875;
};
void visit(Visitor& v, RandomResizedCropOptions& o) {
  v("size", o.size, "side of the square", {.min = 1, .max = 1 << 14});
  v("min_scale", o.min_scale, "smallest fraction of the image's area", {.min = 1e-6, .max = 1});
  v("max_scale", o.max_scale, "largest fraction of the image's area", {.min = 1e-6, .max = 1});
  v("min_ratio", o.min_ratio, "smallest ratio of width to height", {.min = 1e-2, .max = 1e2});
  v("max_ratio", o.max_ratio, "largest ratio of width to height", {.min = 1e-2, .max = 1e2});
  v("eval_share", o.eval_share, "in evaluation: fraction of the shorter side that is kept",
    {.min = 1e-2, .max = 1});
}

// Returns the largest centered part whose aspect ratio is allowed.
Rectangle middle_part(const RandomResizedCropOptions& o, int64_t height, int64_t width) {
  const double ratio = double(width) / double(height);
  const auto pixels = [](double side) { return std::max<int64_t>(1, std::lrint(side)); };
  const int64_t h = ratio < o.min_ratio ? pixels(double(width) / o.min_ratio) : height;
  const int64_t w = ratio > o.max_ratio ? pixels(double(height) * o.max_ratio) : width;
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Rectangle random_part(const RandomResizedCropOptions& o, int64_t height, int64_t width,
                      const Philox& rng) {
  const auto between = [&](double low, double high, uint64_t index) {
    return low + (high - low) * rng.uniform(index);
  };
  for (uint64_t i = 0; i < 4 * 10; i += 4) {
    const double area = double(height * width) * between(o.min_scale, o.max_scale, i);
    const double ratio = std::exp(between(std::log(o.min_ratio), std::log(o.max_ratio), i + 1));
    const int64_t h = std::lrint(std::sqrt(area / ratio)), w = std::lrint(std::sqrt(area * ratio));
    if (h > 0 && h <= height && w > 0 && w <= width)
      return {int64_t(rng.below(height - h + 1, i + 2)), int64_t(rng.below(width - w + 1, i + 3)),
              h, w};
  }
  return middle_part(o, height, width);
}

}  // namespace

static Transform make_random_resized_crop(const RandomResizedCropOptions& o, const DatasetInfo&) {
  CHECK(o.min_scale <= o.max_scale && o.min_ratio <= o.max_ratio,
        "random_resized_crop: scales from ", o.min_scale, " to ", o.max_scale, ", ratios from ",
        o.min_ratio, " to ", o.max_ratio, "; the smaller comes first");
  const auto apply = [o](ImagePlan& image, TransformMode mode, const RngKey& key) {
    if (mode == TransformMode::training)
      return image.resize(random_part(o, image.height(), image.width(), Philox(key)), o.size,
                          o.size);
    image.resize_short_side(std::lrint(double(o.size) / o.eval_share));
    image.crop_center(o.size, o.size);
  };
  return {apply, true};
}

static const AddTransform random_resized_crop_entry(
    "random_resized_crop", "a part of random size and shape, resized to a square",
    TransformPhase::resize, &make_random_resized_crop);

}  // namespace bellows
