#include "data/transform.h"

namespace bellows {

Transforms::Transforms(std::vector<TransformChoice> choices, const DatasetInfo& info)
    : in_(info.sample), out_(info.sample) {
  CHECK(in_.rank() == 3 && in_[0] <= kMaxChannels, "transforms take pictures of up to ",
        kMaxChannels, " channels, (C, H, W); the data set's are ", in_);
  if (choices.empty()) choices.emplace_back("normalize");
  for (const TransformChoice& choice : choices) {
    steps_.push_back({choice.name(), choice.make(info)});
    out_ = steps_.back().transform->shape_of(out_);
  }
}

void Transforms::apply_all(Picture& picture, uint64_t seed, int64_t epoch, int64_t index) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const RngKey key{.seed = seed,
                     .purpose = Purpose::augment,
                     .site = uint64_t(index) << 8 | i,
                     .step = uint64_t(epoch)};
    try {
      steps_[i].transform->apply(picture, key);
    } catch (const Error& error) {
      fail(error.exit, "transform ", steps_[i].name, ": ", error.what());
    }
  }
}

void Transforms::write(const Sample& sample, uint64_t seed, int64_t epoch, int64_t index,
                       float* out) const {
  if (!(sample.shape == in_))
    fail(Exit::data, "its shape is ", sample.shape, ", the data set's is ", in_);
  Picture picture{sample.pixels, sample.shape, {}};
  apply_all(picture, seed, epoch, index);
  INVARIANT(picture.shape == out_, "a transform left ", picture.shape, ", not ", out_);
  const int64_t pixels = out_[1] * out_[2];
  for (int64_t c = 0; c < out_[0]; ++c) {
    const uint8_t* const in = picture.pixels + c * pixels;
    float* const channel = out + c * pixels;
    for (int64_t i = 0; i < pixels; ++i) channel[i] = picture.levels.at(int(c), in[i]);
  }
}

std::optional<Levels> Transforms::levels() const {
  for (const Step& step : steps_)
    if (!step.transform->levels_only()) return {};
  Picture picture{nullptr, in_, {}};
  apply_all(picture, 0, 0, 0);
  return picture.levels;
}

}  // namespace bellows
