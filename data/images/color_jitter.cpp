// color_jitter: random brightness b, contrast c and saturation s, as one linear map of colors: x *
// b, then gray + (x - gray) * c, then luma(x) + (x - luma(x)) * s. torchvision uses the image's
// mean gray; this transform uses the data set's, which needs no pass over the pixels. Colors are
// clamped to [0, 255] once, after all three. The hue is rotated as in torchvision, but always last;
// torchvision draws the order of the four changes at random.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

struct ColorJitterOptions {
  double brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0;
};
void visit(Visitor& v, ColorJitterOptions& o) {
  v("brightness", o.brightness, "random factor in [1 - this, 1 + this]", {.min = 0, .max = 1});
  v("contrast", o.contrast, "the same, for the distance from the mean gray", {.min = 0, .max = 1});
  v("saturation", o.saturation, "the same, for the distance from gray", {.min = 0, .max = 1});
  v("hue", o.hue, "rotated by [-this, this] of a full circle", {.min = 0, .max = 0.5});
}

constexpr float kLuma[] = {0.299f, 0.587f, 0.114f};  // ITU-R BT.601

// Scales the distance of each color from `shift`. saturated() scales it from their luma.
Colors stretched(float factor, float shift) {
  Colors map;
  for (int c = 0; c < 3; ++c) map.matrix[c][c] = factor, map.shift[c] = (1 - factor) * shift;
  return map;
}
Colors saturated(float factor) {
  Colors map = stretched(factor, 0);
  for (auto& row : map.matrix)
    for (int c = 0; c < 3; ++c) row[c] += (1 - factor) * kLuma[c];
  return map;
}

}  // namespace

static Transform make_color_jitter(const ColorJitterOptions& o, const DatasetInfo& info) {
  CHECK(info.input.shape[0] == 3 && info.mean.size() == 3,
        "color_jitter takes red, green and blue; the data set's images are ", info.input.shape);
  float gray = 0;  // mean gray of the data set, in [0, 255]
  for (int c = 0; c < 3; ++c) gray += 255 * kLuma[c] * info.mean[c];
  const auto apply = [o, gray](ImagePlan& image, TransformMode mode, const RngKey& key) {
    if (mode == TransformMode::evaluation) return;
    const Philox rng(key);
    const auto around = [&](double middle, double most, uint64_t index) {
      return float(middle + most * (2 * rng.uniform(index) - 1));
    };
    image.colors = Colors()
                       .then(stretched(around(1, o.brightness, 0), 0))
                       .then(stretched(around(1, o.contrast, 1), gray))
                       .then(saturated(around(1, o.saturation, 2)));
    image.colors->turn = around(0, o.hue, 3);
  };
  return {apply, true};
}

static const AddTransform color_jitter_entry("color_jitter",
                                             "brightness, contrast, saturation and hue",
                                             TransformPhase::color, &make_color_jitter);

}  // namespace bellows
