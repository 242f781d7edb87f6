// Loader: batches of a data set in the order of its sampler, made here or by worker threads ahead
// of their use, in host memory. Order and content do not depend on the number of workers.
#pragma once
#include "data/loader/feed.h"
#include "data/loader/sampler.h"
#include "data/loader/worker.h"

namespace bellows {

struct LoaderOptions {
  int64_t batch_size = 64;
  bool shuffle = true;
  Order order = Order::random;
  int64_t window = 64;  // pages of a quasi-random order
  bool augment = true;  // off: transforms leave nothing to chance, as in evaluation
  Tta tta = Tta::none;  // of an evaluation's loader, which has a view for an epoch
  OnDamaged on_damaged = OnDamaged::error;
  bool scaled_decode = false;
  bool drop_last = false;
  bool channels_last = false;   // batches are made in NHWC
  int64_t num_workers = 0;      // threads; 0: next() makes the batch
  int64_t prefetch_factor = 0;  // finished batches of each worker that wait for their turn
  bool persistent_workers = false;
  QueueKind queue = QueueKind::locked;
  bool background = false;
  bool device_randperm = false;
  bool pin_memory = false;      // batches are made in page-locked memory
  bool non_blocking = false;    // and copied to the device ahead of their use
  bool device_tensors = false;  // or gathered there, from samples that stay there
  bool device_augment = false;  // bytes; what the device can do of the transforms is left to it
  int64_t sim_latency_us = 0;
  double timeout_s = 60;
  const MemoryFormat& format() const { return channels_last ? kNHWC : kNCHW; }
};
void visit(Visitor& v, LoaderOptions& o);

// Used by one thread, the compute thread: start() may call parallel_for.
class Loader : public Feed {
 public:
  // An empty list of transforms stands for the data set's own normalisation.
  Loader(std::shared_ptr<const Dataset> dataset, const std::vector<TransformChoice>& transforms,
         const LoaderOptions& options, uint64_t seed, RankShare share = {});
  // At any time. Waits for workers that are at a batch, but no longer than the timeout.
  ~Loader() override;
  Loader(Loader&&) = delete;

  int64_t batches() const { return sampler_.batches(); }  // of an epoch
  int64_t samples() const { return sampler_.size(); }     // of an epoch, of this rank
  const Dataset& dataset() const { return *source_->dataset; }
  const Transforms& transforms() const { return source_->transforms; }
  const Sampler& sampler() const { return sampler_; }
  const LoaderOptions& options() const { return options_; }
  Shape batch_shape() const { return source_->batch_shape(); }  // of the largest: (B, C, H, W)
  // What is left to a device in that epoch.
  Recipe recipe(int64_t epoch) const;
  const MemoryFormat& batch_format() const { return source_->format; }

  void start(int64_t epoch, int64_t first_batch = 0) override;
  // After an error, and when a batch is not there after timeout_s, the epoch is over.
  bool next(Batch& batch) override;

 private:
  void hire();
  void dismiss(Seconds patience);
  void end_epoch(Seconds patience);
  Made take();
  Seconds timeout() const { return Seconds(options_.timeout_s); }

  LoaderOptions options_;
  std::shared_ptr<const BatchSource> source_;
  Sampler sampler_;
  BatchMaker maker_;                                                // when there are no workers
  const std::shared_ptr<Depth> depth_ = std::make_shared<Depth>();  // of the queue
  std::shared_ptr<Epoch> epoch_;
  int64_t next_ = 0;  // batch
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace bellows
