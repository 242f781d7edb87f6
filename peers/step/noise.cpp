// Data set `noise`: images of random bytes, any size and number, generated on access.
#include "core/base/philox.h"
#include "core/config/visitor.h"
#include "data/sets/dataset.h"

namespace bellows {

namespace {

struct NoiseOptions {
  int64_t channels = 3, size = 32, classes = 10, samples = 64;
};
void visit(Visitor& v, NoiseOptions& o) {
  v("channels", o.channels, "of an image", {.min = 1, .max = 4});
  v("size", o.size, "its side", {.min = 1, .max = 4096});
  v("classes", o.classes, "of the labels", {.min = 1, .max = 1e6});
  v("samples", o.samples, "in either split", {.min = 1, .max = 1e6});
}

class Noise : public Dataset {
 public:
  explicit Noise(const NoiseOptions& o)
      : size_(o.samples),
        info_{.input = {DType::u8, {o.channels, o.size, o.size}},
              .classes = o.classes,
              .mean = std::vector(o.channels, .5f),
              .std = std::vector(o.channels, .289f)} {}  // 1 / sqrt(12)
  int64_t size() const override { return size_; }
  const DatasetInfo& info() const override { return info_; }
  Sample at_least(int64_t index, const ViewOf&, Scratch& scratch) const override {
    const Philox rng(RngKey{.site = static_cast<uint64_t>(index)});
    scratch.resize(info_.input.shape.numel());
    for (size_t i = 0; i < scratch.size(); ++i) scratch[i] = static_cast<uint8_t>(rng.bits(i));
    return {scratch.data(), info_.input.shape, index * 7 % info_.classes};
  }
  std::string origin(int64_t index) const override { return cat("noise/", index); }

 private:
  int64_t size_;
  DatasetInfo info_;
};

DatasetPtr make_noise(const NoiseOptions& o, const DatasetContext&) {
  return std::make_shared<Noise>(o);
}

const AddEntry<MakeDataset> entry("noise", "random bytes, for benches", &make_noise);

}  // namespace

}  // namespace bellows
