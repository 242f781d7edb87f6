// Helpers for tests of augmentation: images of noise, lists of transforms, feeds to a device.
#pragma once
#include "core/tensor/copy.h"
#include "data/feeds/device_feed.h"
#include "tests/data/options.h"

namespace bellows {

// Random images. The tests use shapes without symmetry.
class Noise : public Dataset {
 public:
  Noise(const Shape& shape, int64_t size) : size_(size) {
    info_ = {.input = {DType::u8, shape},
             .classes = 10,
             .mean = {.4f, .5f, .6f},
             .std = {.2f, .3f, .4f}};
    info_.mean.resize(shape[0]);
    info_.std.resize(shape[0]);
  }
  int64_t size() const override { return size_; }
  const DatasetInfo& info() const override { return info_; }
  Sample at_least(int64_t index, const ViewOf&, Scratch& scratch) const override {
    const Philox rng(RngKey{.site = uint64_t(index)});
    scratch.resize(info_.input.shape.numel());
    for (size_t i = 0; i < scratch.size(); ++i) scratch[i] = uint8_t(rng.bits(i));
    return {scratch.data(), info_.input.shape, index % 10};
  }
  std::string origin(int64_t index) const override { return cat("noise/", index); }
  bool fixed_pixels() const override { return true; }

 private:
  int64_t size_;
  DatasetInfo info_;
};

using Chain = std::vector<TransformChoice>;
inline TransformChoice named(const std::string& name, const Texts& options = {}) {
  return chosen<TransformChoice>(name, options);
}
inline TransformChoice random_crop(int size, int padding, const char* mode = "zeros") {
  return named("random_crop",
               {{"size", cat(size)}, {"padding", cat(padding)}, {"padding_mode", mode}});
}
inline TransformChoice flip() { return named("random_flip"); }
inline TransformChoice normalize() { return named("normalize"); }
inline TransformChoice center_crop(int size) { return named("center_crop", {{"size", cat(size)}}); }
inline TransformChoice cutout(int size) { return named("cutout", {{"size", cat(size)}}); }

// Options of the feed to a device.
struct Way {
  const char* name;
  bool pin_memory, non_blocking, device_tensors;
};
inline std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
inline LoaderOptions with(const Way& way, LoaderOptions options) {
  options.batch.pin_memory = way.pin_memory;
  options.feed.non_blocking = way.non_blocking;
  options.feed.device_tensors = way.device_tensors;
  return options;
}

// Returns the remaining batches, each as x, rounded to `dtype`, followed by y. Releases each one
// before it requests the next, as the training loop does.
using Numbered = std::vector<std::vector<float>>;
inline Numbered rest_of(Feed& feed, DType dtype = DType::f32) {
  Numbered batches;
  for (Batch batch; feed.next(batch);) {
    const Tensor x = contiguous(to(Device::cpu, batch.x)), y = to(Device::cpu, batch.y);
    const Tensor values = cast(cast(x, dtype), DType::f32);
    batches.emplace_back(values.data<float>().begin(), values.data<float>().end());
    batches.back().insert(batches.back().end(), y.ptr<int64_t>(), y.ptr<int64_t>() + y.numel());
  }
  return batches;
}

struct Fed {
  Fed(Device device, const LoaderOptions& options, DatasetPtr dataset, const Chain& chain,
      RankShare share = {}, DType images = DType::f32)
      : loader(std::move(dataset), chain, options, 5, share),
        own(make_feed(device, loader, notes, images)),
        feed(own ? *own : loader) {}
  Numbered epoch(int64_t number, int64_t first = 0) {
    feed.start(number, first);
    return rest_of(feed);
  }
  std::vector<std::string> notes;
  Loader loader;
  const std::unique_ptr<Feed> own;
  Feed& feed;
};

inline LoaderOptions augmenting(LoaderOptions options) {
  options.feed.device_augment = true;
  return options;
}

}  // namespace bellows
