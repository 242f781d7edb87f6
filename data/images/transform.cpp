#include "data/images/transform.h"
#include "core/config/visitor.h"

namespace bellows {

std::map<std::string, TransformPhase>& phases() {
  static std::map<std::string, TransformPhase> all;
  return all;
}

// Returns what is wrong with the order of a list, as in "has resize after random_crop"; "" if
// nothing is.
static std::string misplaced(const std::vector<TransformChoice>& list) {
  std::string last;
  TransformPhase reached = TransformPhase::levels;
  for (const TransformChoice& choice : list) {
    const auto phase = phases().find(choice.name());  // a listing has the name ""
    if (phase == phases().end() || phase->second == TransformPhase::levels) continue;
    if (phase->second < reached || (phase->second == reached && reached != TransformPhase::crop))
      return cat("has ", choice.name(), " after ", last,
                 "; the order is: one transform that resizes, then crops and flips, then one "
                 "color_jitter, then one cutout");
    reached = phase->second, last = choice.name();
  }
  return "";
}

void visit_transforms(Visitor& v, std::vector<TransformChoice>& list) {
  v.choices("transforms", list,
            "from pixels to values, in order; [] is [normalize], with the data set's mean and std");
  if (list.empty()) list.emplace_back("normalize");
  const std::string why_not = misplaced(list);
  v.require("transforms", why_not.empty(), why_not.c_str());
}

Transforms::Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info,
                       TransformMode mode, DoneBy by)
    : mode_(mode), dtype_(info.input.dtype), in_(info.input.shape), out_(in_) {
  if (!info.images()) {
    const bool given = std::ranges::any_of(  // the default has normalize only
        choices, [](const TransformChoice& choice) { return choice.name() != "normalize"; });
    CHECK(!given, "data.transforms are for images, the data set has ", info.unit);
    return;
  }
  dtype_ = by == DoneBy::host ? DType::f32 : DType::u8;
  CHECK(in_.rank() == 3 && in_[0] <= kMaxChannels, "transforms take images of up to ", kMaxChannels,
        " channels, (C, H, W); the data set's are ", in_);
  if (choices.empty()) choices.emplace_back("normalize");
  const std::string why_not = misplaced(choices);
  CHECK(why_not.empty(), "data.transforms ", why_not);
  make_all(choices, info);
  made_ = items_.size();
  if (by == DoneBy::device) leave_to_device();
}

// Makes the transforms and tries each one on an image of the data set's size or, if sizes differ,
// on two large images. A side that is equal for both is taken to be equal for all images.
void Transforms::make_all(const std::vector<TransformChoice>& choices, const DatasetInfo& info) {
  constexpr int64_t kLarge = 1 << 14;  // the largest crop size
  const bool differ = in_.numel() == 0;
  ImagePlan wide(differ ? Shape{in_[0], kLarge, 2 * kLarge} : in_);
  ImagePlan high(differ ? Shape{in_[0], 2 * kLarge, kLarge} : in_);
  bool padded = false;
  for (const TransformChoice& choice : choices) {
    const Transform made = choice.make(info);
    items_.push_back({choice.name(), made, made.edits[int(mode_)], out_});
    const Item& item = items_.back();
    const bool pads = item.edit && item.edit->padding;
    CHECK(!padded || !pads, "transform ", item.name,
          ": the images have padding already, and only one transform may pad; remove one of them");
    padded |= pads;
    apply(item, wide, {});
    apply(item, high, {});
    for (int axis = 1; axis < 3; ++axis)
      out_[axis] = wide.shape()[axis] == high.shape()[axis] ? wide.shape()[axis] : 0;
  }
  CHECK(out_.numel() > 0,
        "the images of this data set may differ in size, and no transform makes them alike; add "
        "random_resized_crop, or resize and center_crop, to data.transforms");
}

// Levels can be left to the device from any place in the list, because they always apply last.
void Transforms::leave_to_device() {
  bool behind = true;
  for (size_t i = items_.size(); i-- > 0;) {
    Item& item = items_[i];
    behind = behind && item.edit && item.in.numel();
    if (behind) made_ = i;
    item.left = behind || (item.edit && item.edit->kind == Edit::Kind::levels);
  }
  ImagePlan levels(made_shape());
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].left) continue;
    Edit edit = *items_[i].edit;
    if (edit.kind == Edit::Kind::levels) apply(items_[i], levels, {});
    if (edit.kind <= Edit::Kind::levels) continue;
    CHECK(recipe_.count < Recipe::kMost, "more than ", Recipe::kMost,
          " transforms for a device; write  toggles: {device_augment: off}");
    edit.place = int(i);
    recipe_.edits[recipe_.count++] = edit;
  }
  recipe_.levels = levels.levels;
}

void Transforms::apply(const Item& item, ImagePlan& image, const RngKey& key) const {
  try {
    item.transform.apply(image, mode_, key);
  } catch (const Error& error) {
    fail(error.exit, "transform ", item.name, ": ", error.what());
  }
}

ImagePlan Transforms::plan(const Shape& sample, uint64_t seed, int64_t epoch, int64_t index) const {
  ImagePlan image(sample);
  for (size_t i = 0; i < items_.size(); ++i)
    if (!items_[i].left) apply(items_[i], image, augment_key(seed, epoch, index, int(i)));
  return image;
}

static bool fits(const Shape& shape, const Shape& wanted) {
  for (int axis = 0; axis < 3; ++axis)
    if (wanted[axis] && shape[axis] != wanted[axis]) return false;
  return shape.rank() == 3;
}

ImagePlan Transforms::plan(const Sample& sample, uint64_t seed, int64_t epoch,
                           int64_t index) const {
  CHECK(fits(sample.shape, in_), "its shape is ", sample.shape, ", the data set's is ", in_);
  const ImagePlan image = plan(sample.shape, seed, epoch, index);
  INVARIANT(image.shape() == made_shape(), "the transforms left ", image.shape(), ", not ",
            made_shape());
  return image;
}

void Transforms::write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index,
                       float* out, const MemoryFormat& format) const {
  write_image(plan(sample, seed, epoch, index), sample, out, format);
}

void Transforms::write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index,
                       uint8_t* out) const {
  const ImagePlan image = plan(sample, seed, epoch, index);
  CHECK(image.bytes_only(),
        "a transform of the host makes values that bytes cannot hold; write  toggles: "
        "{device_augment: off}");
  write_bytes(image, sample, out);
}

std::optional<Levels> Transforms::levels() const {
  for (const Item& item : items_)
    if (mode_ == TransformMode::training && item.transform.is_random) return {};
  if (in_.numel() == 0) return {};
  const ImagePlan image = plan(in_, 0, 0, 0);
  if (!image.levels_only()) return {};
  return image.levels;
}

}  // namespace bellows
