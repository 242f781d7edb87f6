// Loader: batches of a data set, in host memory and in the sampler's order. next() makes them, or
// worker threads do so ahead of use. Order and contents do not depend on the number of workers.
#pragma once
#include "data/loader/batch_maker.h"
#include "data/loader/batch_queue.h"

namespace bellows {

// Selects the feed of a GPU. device_augment also applies to the CPU.
struct FeedOptions {
  bool non_blocking = false;    // batches are copied to the device ahead of use
  bool device_tensors = false;  // samples stay on the device, batches are gathered there
  bool device_augment = false;  // batches are bytes; the device runs the transforms it can
};
void visit(Visitor& v, FeedOptions& o);

// Source of batches of the training loop. The loader is one; on a device the loop reads a
// feed that delivers the loader's batches there (data/feeds/device_feed.h).
//
//   feed.start(epoch);
//   for (Batch batch; feed.next(batch);) step(batch);
//
// To measure how long next() waits for data alone, call catch_up() before it.
class Feed {
 public:
  virtual ~Feed() = default;
  // Begins an epoch at batch `first_batch`; drops an epoch in progress.
  virtual void start(int64_t epoch, int64_t first_batch = 0) = 0;
  // Waits for a device that is behind, so that next() waits for data only.
  virtual void catch_up() {}
  // Assigns the next batch. Empties the handle first, so that its buffer can be reused. False at
  // the end of the epoch. Throws the error of a batch when that batch is due.
  virtual bool next(Batch& batch) = 0;
  // Makes a feed that writes batches on the current stream write those of place's shape into
  // `place`, which has the form of its batches. Such a batch is valid until the next one.
  virtual void write_into([[maybe_unused]] const Batch& place) {}
};

constexpr int64_t kAutoWorkers = -1;

// The threads of a loader.
struct WorkerOptions {
  // Threads. 0: Loader::next() makes the batch. kAutoWorkers: as many as hide the loading.
  int64_t num_workers = 0;
  int64_t prefetch_factor = 0;  // finished batches that may wait, per worker
  bool persistent_workers = false;
  QueueKind queue = QueueKind::locked;
  double timeout_s = 60;  // how long Loader::next() waits for a batch
};

// All options of these groups are keys of `data`, without a prefix.
struct LoaderOptions {
  SamplerOptions sampler = {};
  BatchOptions batch = {};
  WorkerOptions workers = {};
  FeedOptions feed = {};
};
void visit(Visitor& v, LoaderOptions& o);

// Compute thread only: start() may call parallel_for.
class Loader : public Feed {
 public:
  // An empty list of transforms means normalize, with the data set's own mean and std.
  Loader(const DatasetPtr& dataset, const std::vector<TransformChoice>& transforms,
         const LoaderOptions& options, uint64_t seed, RankShare share = {});
  // Allowed in the middle of an epoch. Waits for workers that are making a batch, up to timeout_s.
  ~Loader() override;
  Loader(Loader&&) = delete;

  int64_t batches() const { return sampler().batches(); }  // batches per epoch
  int64_t samples() const { return sampler().size(); }     // samples of this rank per epoch
  const Dataset& dataset() const { return *source_->dataset; }
  const Transforms& transforms() const { return source_->transforms; }
  const Sampler& sampler() const { return source_->sampler; }
  const BatchSource& source() const { return *source_; }
  const LoaderOptions& options() const { return options_; }
  int64_t workers() const { return workers_now_; }
  std::string take_news();  // one line once kAutoWorkers has chosen a number, else ""
  const MakingTime& making_time() const { return *source_->time; }
  // Returns the transforms that are left to the device in that epoch.
  Recipe recipe(int64_t epoch) const;

  void start(int64_t epoch, int64_t first_batch = 0) override;
  // Throws Error(Exit::data) if there is no batch after timeout_s. Any error ends the epoch. With
  // kAutoWorkers, after the first kObserved batches the epoch continues with ceil(L / C) workers. L
  // is one worker's time for a batch; C is the mean time between two calls of next(), without the
  // slowest tenth.
  bool next(Batch& batch) override;
  // Once interrupted() returns true, next() does not wait for a worker: it ends the epoch, returns
  // false and leaves busy threads to end by themselves.
  Interrupted interrupted = {};

 private:
  struct Epoch;
  class Worker;

  void start_workers();
  void stop_workers(Seconds patience);
  void end_epoch(Seconds patience);
  BatchResult take();
  void observe(int64_t asked_ns);
  void choose_workers();
  Seconds timeout() const { return Seconds(options_.workers.timeout_s); }

  LoaderOptions options_;
  std::shared_ptr<const BatchSource> source_;
  BatchMaker maker_;                                                // used without workers
  const std::shared_ptr<Depth> depth_ = std::make_shared<Depth>();  // shared by the queues
  std::shared_ptr<Epoch> epoch_;
  int64_t next_ = 0;  // index of the next batch
  int64_t workers_now_ =
      options_.workers.num_workers == kAutoWorkers ? 1 : options_.workers.num_workers;
  // With kAutoWorkers: batches so far, the making time and count at the start of the observation,
  // and the caller's times between two calls since then.
  int64_t taken_ = 0, made_ = 0, making_ns_ = 0, returned_ns_ = 0;
  std::vector<double> gaps_ns_;
  std::string news_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Throws Error(Exit::data) that names the first sample whose size the loader's transforms refuse,
// such as an image smaller than a crop. Reads every file whole, but only if image sizes differ and
// some size would be refused. Also names a sample that cannot be read. Compute thread only.
void check_sizes(const Loader& loader);

}  // namespace bellows
