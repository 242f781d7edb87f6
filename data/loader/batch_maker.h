// BatchMaker: reads and transforms samples, straight into the buffer that the trainer reads. One
// maker per thread.
#pragma once
#include <atomic>
#include "data/images/image_file.h"
#include "data/images/transform.h"
#include "data/loader/batch.h"
#include "data/loader/sampler.h"
#include "data/sets/arrays.h"
#include "data/sets/damaged.h"

namespace bellows {

class Visitor;

// Distribution of a planted loading time around its mean.
enum class Jitter { none, uniform, exponential };

// Options for making batches of samples.
struct BatchOptions {
  bool augment = true;                      // off: transforms are deterministic, as in evaluation
  OnDamaged on_damaged = OnDamaged::error;  // applied by the caller, with without_damaged()
  int64_t max_pixels = kMostPixels;         // applied by the caller, with most_pixels()
  bool scaled_decode = false;
  bool channels_last = false;  // NHWC
  bool pin_memory = false;     // batches are in page-locked memory
  // Samples of varying length are padded to the longest of the batch, rounded up: to a multiple of
  // pad_to if it has one number, else to the next number in it.
  std::vector<int64_t> pad_to = {};
  // Planted loading: mean sleep per batch, in us. sim_slow [0.05, 20]: a share of 0.05 of the
  // batches takes 20 times as long.
  int64_t sim_latency_us = 0;
  Jitter sim_jitter = Jitter::none;
  std::vector<double> sim_slow = {};
  const MemoryFormat& format() const { return channels_last ? kNHWC : kNCHW; }
};
void visit(Visitor& v, BatchOptions& o);

// Returns the planted sleep of a batch, in us, which does not depend on the number of workers.
int64_t planted_us(const BatchOptions& options, uint64_t seed, int64_t epoch, int64_t batch);

// Batches that all makers of a loader have made, and the time that they took, including waits for
// files.
struct MakingTime {
  std::atomic<int64_t> batches{0}, ns{0};
};

// Inputs that all makers of a loader share.
struct BatchSource {
  DatasetPtr dataset;
  Sampler sampler;
  Transforms transforms;
  uint64_t seed;
  BatchOptions options;
  MemoryFormat format;  // format of batches: the options', or NCHW for bytes
  std::shared_ptr<MakingTime> time = std::make_shared<MakingTime>();

  // Form of a batch of `rows` samples whose longest has length `length`, which images ignore.
  BatchForm form(int64_t rows, int64_t length) const;
  BatchForm largest() const;  // has room for every batch of an epoch
  // Returns the length to which samples are padded if the longest has length `length`.
  int64_t padded(int64_t length) const;
  // Returns a free buffer for this rank's batch of a plan, with its counts and divisor.
  Batch take(BatchBuffers& buffers, const EpochPlan& plan, int64_t batch) const;

 private:
  int64_t longest_of(const Tensor& samples) const;
  BatchCounts counts(const EpochPlan& plan, int64_t batch) const;
};

// Makes the batch of these samples, (B) i64, in batch.x, batch.y and batch.lengths. `varies`: the
// lengths of targets vary. All tensors are on one device.
void collate(const Arrays& arrays, const Tensor& samples, bool varies, const Batch& batch);

class BatchMaker {
 public:
  explicit BatchMaker(std::shared_ptr<const BatchSource> source);
  // Returns this rank's batch of a plan, or an error that names the sample and its origin.
  BatchResult make(const EpochPlan& plan, int64_t batch, int64_t epoch);
  // Names the sample that make() is working on: "is at sample 7 (path)", or "has not begun a
  // sample". Callable from any thread.
  std::string at_work_on() const;

 private:
  void fill(int64_t sample, int64_t epoch, const Batch& to, int64_t i);

  std::shared_ptr<const BatchSource> source_;
  BatchBuffers buffers_;
  Scratch scratch_;
  std::atomic<int64_t> sample_{-1};
};

}  // namespace bellows
