// Data set for tests: the pixels of an image encode its index.
#pragma once
#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include "data/loader/loader.h"
#include "data/sets/dataset.h"

namespace bellows {

// Shape (1, 2, 2). Mean and standard deviation are such that the model receives the raw bytes.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size, bool fixed = true) : size_(size), fixed_(fixed) {}
  int64_t size() const override { return size_; }
  const DatasetInfo& info() const override { return info_; }
  Sample at_least(int64_t index, const ViewOf&, Scratch& scratch) const override {
    on_read(index);
    scratch = {uint8_t(index), uint8_t(index >> 8), 0, 255};
    return {scratch.data(), info_.input.shape, index % 10};
  }
  std::string origin(int64_t index) const override { return cat("numbers/", index, ".png"); }
  bool fixed_pixels() const override { return fixed_; }

  std::vector<std::string>& class_names() { return info_.names; }
  std::function<void(int64_t)> on_read = [](int64_t) {};

 private:
  int64_t size_;
  bool fixed_;
  DatasetInfo info_{
      .input = {DType::u8, {1, 2, 2}}, .classes = 10, .mean = {0}, .std = {1.f / 255}};
};

// Index of the i-th sample of a batch on the host.
inline int64_t index_of(const Batch& batch, int64_t i) {
  const float* const x = batch.x.ptr<float>() + 4 * i;
  return std::lround(x[0]) + 256 * std::lround(x[1]);
}

// Returns the indices of the samples of an epoch, from batch `first` on.
inline std::vector<int64_t> epoch_of(Loader& loader, int64_t epoch = 0, int64_t first = 0) {
  loader.start(epoch, first);
  std::vector<int64_t> seen;
  for (Batch batch; loader.next(batch);)
    for (int64_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(batch.y.data<int64_t>()[i], index_of(batch, i) % 10);
      seen.push_back(index_of(batch, i));
    }
  return seen;
}

}  // namespace bellows
