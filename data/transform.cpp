#include "data/transform.h"
#include "data/write_picture.h"

namespace bellows {

Transforms::Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info, Use use,
                       Tta tta)
    : use_(use), views_(views_of(tta)), in_(info.sample), out_(info.sample) {
  CHECK(in_.rank() == 3 && in_[0] <= kMaxChannels, "transforms take pictures of up to ",
        kMaxChannels, " channels, (C, H, W); the data set's are ", in_);
  if (choices.empty()) choices.emplace_back("normalize");
  for (const TransformChoice& choice : choices) {
    steps_.push_back({choice.name(), choice.make(info)});
    out_ = steps_.back().transform->shape_of(out_);
  }
  CHECK(out_.numel() > 0,
        "the pictures of this data set differ in size, and no transform makes "
        "them alike; add random_resized_crop, or resize and center_crop, to data.transforms");
}

static void show(const TtaView& view, Picture& picture) {
  if (view.shift)
    picture.crop({-view.shift, -view.shift, picture.height(), picture.width()}, Outside::reflect);
  if (view.mirrored) picture.mirror();
}

Picture Transforms::plan(const Shape& sample, uint64_t seed, int64_t epoch, int64_t index) const {
  Picture picture(sample);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Transform& transform = *steps_[i].transform;
    const RngKey key{.seed = seed,
                     .purpose = Purpose::augment,
                     .site = uint64_t(index) << 8 | i,
                     .step = uint64_t(epoch)};
    try {
      use_ == Use::training ? transform.apply(picture, key) : transform.settle(picture);
    } catch (const Error& error) {
      fail(error.exit, "transform ", steps_[i].name, ": ", error.what());
    }
  }
  if (views_.size() > 1) show(views_.at(epoch), picture);
  return picture;
}

static bool fits(const Shape& shape, const Shape& wanted) {
  for (int axis = 0; axis < 3; ++axis)
    if (wanted[axis] && shape[axis] != wanted[axis]) return false;
  return shape.rank() == 3;
}

void Transforms::write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index,
                       float* out) const {
  if (!fits(sample.shape, in_))
    fail(Exit::data, "its shape is ", sample.shape, ", the data set's is ", in_);
  const Picture picture = plan(sample.shape, seed, epoch, index);
  INVARIANT(picture.shape() == out_, "the transforms left ", picture.shape(), ", not ", out_);
  write_picture(picture, sample, out);
}

std::optional<Levels> Transforms::levels() const {
  for (const Step& step : steps_)
    if (use_ == Use::training && step.transform->is_random()) return {};
  if (in_.numel() == 0 || views_.size() > 1) return {};
  const Picture picture = plan(in_, 0, 0, 0);
  if (!picture.levels_only()) return {};
  return picture.levels;
}

}  // namespace bellows
