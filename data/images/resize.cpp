// Transforms that resize whole images.
#include "core/config/visitor.h"
#include "data/images/transform.h"

namespace bellows {

namespace {

// ---- resize: bilinear and antialiased, to a square or with the aspect ratio kept

struct ResizeOptions {
  int64_t size = 256;
  bool square = false;
};
void visit(Visitor& v, ResizeOptions& o) {
  v("size", o.size, "length of the shorter side, or of both", {.min = 1, .max = 1 << 14});
  v("square", o.square, "both sides get that size, without keeping the aspect ratio");
}

class Resize : public Transform {
 public:
  explicit Resize(const ResizeOptions& o) : o_(o) {}
  void apply(ImagePlan& image, const RngKey&) const override {
    if (o_.square)
      image.resize(o_.size, o_.size);
    else
      image.resize_short_side(o_.size);
  }
  Shape shape_of(const Shape& in) const override {
    if (o_.square) return {in[0], o_.size, o_.size};
    if (in.numel() == 0) return in;
    ImagePlan image(in);
    image.resize_short_side(o_.size);
    return image.shape();
  }

 private:
  ResizeOptions o_;
};

TransformPtr make_resize(const ResizeOptions& o, const DatasetInfo&) {
  return std::make_shared<Resize>(o);
}

// ---- progressive_resize
//
// Training images are small at first and grow from epoch to epoch. Small images cost less, and
// early epochs need no detail. Evaluation does not resize.
//
//   transforms: [random_resized_crop, {name: progressive_resize, from: 160, last_epoch: 13},
//                random_flip, normalize]
//
// Source: Howard, "Training Imagenet in 3 hours for USD 25", fast.ai 2018. The schedule is FFCV's
// (Leclerc et al., CVPR 2023): linear, rounded to whole steps.
struct ProgressiveResizeOptions {
  int64_t from = 128, to = 0, step = 32, first_epoch = 1, last_epoch = 16;
};
void visit(Visitor& v, ProgressiveResizeOptions& o) {
  v("from", o.from, "shorter side, up to first_epoch", {.min = 1, .max = 1 << 14});
  v("to", o.to, "shorter side, from last_epoch on; 0: full size", {.min = 0, .max = 1 << 14});
  v("step", o.step, "pixels between one size and the next", {.min = 1, .max = 1 << 14});
  v("first_epoch", o.first_epoch, "the last one with the smallest images, counted from 1",
    {.min = 1});
  v("last_epoch", o.last_epoch, "the first one with the largest images", {.min = 1});
}

class ProgressiveResize : public Transform {
 public:
  explicit ProgressiveResize(const ProgressiveResizeOptions& o) : o_(o) {}

  void apply(ImagePlan& image, const RngKey& key) const override {
    const int64_t size = size_in(int64_t(key.step), image.shape());
    if (size != shorter(image.shape())) image.resize_short_side(size);
  }
  void settle(ImagePlan&) const override {}
  Shape shape_in(int64_t epoch, const Shape& in) const override {
    CHECK(in.numel() > 0,
          "progressive_resize: the images before it may differ in size; put it after "
          "random_resized_crop or center_crop");
    ImagePlan image(in);
    image.resize_short_side(size_in(epoch, in));
    return image.shape();
  }

 private:
  static int64_t shorter(const Shape& in) { return std::min(in[1], in[2]); }

  // Epochs count from 0 in code, from 1 in options and output.
  int64_t size_in(int64_t epoch, const Shape& in) const {
    const int64_t full = shorter(in), to = o_.to ? o_.to : full;
    CHECK(o_.from <= to && to <= full && (to - o_.from) % o_.step == 0, "progressive_resize: from ",
          o_.from, " to ", to, " by steps of ", o_.step, ", for images of ", in,
          "; it grows to at most the size of the images, in whole steps");
    const int64_t first = o_.first_epoch - 1, last = o_.last_epoch - 1;
    if (epoch >= last) return to;
    if (epoch <= first) return o_.from;
    const double share = double(epoch - first) / double(last - first);
    return o_.from + o_.step * std::lrint(share * double((to - o_.from) / o_.step));
  }

  ProgressiveResizeOptions o_;
};

TransformPtr make_progressive_resize(const ProgressiveResizeOptions& o, const DatasetInfo&) {
  CHECK(o.first_epoch <= o.last_epoch, "progressive_resize: the last epoch, ", o.last_epoch,
        ", comes before the first, ", o.first_epoch);
  return std::make_shared<ProgressiveResize>(o);
}

}  // namespace

static const AddEntry<MakeTransform> resize_entry("resize", "bilinear, antialiased", &make_resize);
static const AddEntry<MakeTransform> progressive_resize_entry(
    "progressive_resize", "smaller images in the first epochs of training",
    &make_progressive_resize);

}  // namespace bellows
