// Makes batches, each straight in the buffer that the trainer will read. One maker per thread.
#pragma once
#include <atomic>
#include "data/images/transform.h"
#include "data/loader/batch_buffers.h"
#include "data/sets/damaged.h"

namespace bellows {

// What all makers of a loader share and nobody changes.
struct BatchSource {
  std::shared_ptr<const Dataset> dataset;
  Transforms transforms;
  uint64_t seed;
  int64_t batch_size;
  bool pin_memory;
  OnDamaged on_damaged;
  bool scaled_decode;
  int64_t sim_latency_us;  // slept once per batch: a planted slow disk
  MemoryFormat format;     // of batches

  Shape batch_shape() const;  // of the largest as they are made: (B, C, H, W)
};

class BatchMaker {
 public:
  explicit BatchMaker(std::shared_ptr<const BatchSource> source);
  // The batch of these samples, or an error that names the sample and where it comes from.
  Made make(std::span<const int64_t> samples, int64_t epoch);
  // What make() is at, from any thread: "sample 7 (path)".
  std::string at_work_on() const;

 private:
  Batch fill_all(std::span<const int64_t> samples, int64_t epoch);
  void fill(int64_t sample, int64_t epoch, const Batch& to, int64_t i);
  Sample read(int64_t sample, int64_t epoch);

  std::shared_ptr<const BatchSource> source_;
  BatchBuffers buffers_;
  Scratch scratch_;
  std::atomic<int64_t> sample_{0};
};

}  // namespace bellows
