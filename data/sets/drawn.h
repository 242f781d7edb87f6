// Data sets that the program draws: each sample is a function of (split, index) alone.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include "core/base/philox.h"
#include "core/config/visitor.h"
#include "core/device/parallel.h"
#include "data/sets/dataset.h"

namespace bellows {

// Options: how many samples to draw.
template <int64_t train, int64_t test> struct DrawnSizes {
  int64_t train_size = train, test_size = test;
  int64_t of(Split split) const { return split == Split::train ? train_size : test_size; }
};
template <int64_t train, int64_t test> void visit(Visitor& v, DrawnSizes<train, test>& o) {
  v("train_size", o.train_size, "samples to train on", {.min = 1, .max = 1e6});
  v("test_size", o.test_size, "samples to test on", {.min = 1, .max = 1e6});
}

// Random values of one sample; each call uses the next Philox block.
class Draw {
 public:
  Draw(Split split, int64_t index)
      : rng_({.purpose = Purpose::dataset, .site = uint64_t(split), .step = uint64_t(index)}) {}
  Philox::Four block() { return rng_(drawn_++); }
  float between(float low, float high) { return low + (high - low) * rng_.uniform(4 * drawn_++); }
  float around(float mean, float deviation) { return mean + deviation * rng_.normal(2 * drawn_++); }
  int64_t below(int64_t n) { return int64_t(rng_.below(n, 4 * drawn_++)); }

 private:
  Philox rng_;
  uint64_t drawn_ = 0;
};

// Writes n bytes, a multiple of 16: light(i) in [0, 1] with noise, which is a random byte scaled to
// [-127.5, 127.5] times `noise`.
template <class Light>
void expose(Draw& draw, size_t n, uint8_t* bytes, float noise, const Light& light) {
  for (size_t i = 0; i < n; i += 16) {
    const auto random = std::bit_cast<std::array<uint8_t, 16>>(draw.block());
    for (size_t j = i; j < i + 16; ++j) {
      const float noisy = light(j) + noise * (float(random[j - i]) - 127.5f);
      bytes[j] = static_cast<uint8_t>(255 * std::clamp(noisy, 0.f, 1.f));
    }
  }
}

// Draws all samples in parallel, into memory. draw(Draw&, pixels) writes one sample and returns its
// label. Compute thread only.
template <class Fn>
DatasetPtr drawn_dataset(const DatasetInfo& info, Split split, int64_t size, const char* name,
                         const Fn& draw) {
  const int64_t bytes = info.input.shape.numel();
  std::vector<uint8_t> pixels(size * bytes), labels(size);
  parallel_for(size, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Draw random(split, i);
      labels[i] = draw(random, &pixels[i * bytes]);
    }
  });
  return std::make_shared<MemoryDataset>(info, std::move(pixels), std::move(labels), name);
}

}  // namespace bellows
