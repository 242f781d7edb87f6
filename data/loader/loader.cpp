#include "data/loader/loader.h"
#include "core/base/trace.h"

namespace bellows {

void visit(Visitor& v, LoaderOptions& o) {
  v("batch_size", o.batch_size, "samples per step and rank", {.min = 1, .max = 1 << 24});
  v("shuffle", o.shuffle, "another order in each epoch");
  v("augment", o.augment, "random transforms are random; off: as in evaluation");
  v("on_damaged", o.on_damaged, {"error", "skip"},
    "a sample that cannot be read ends the run, or the next one stands in for it");
  v("scaled_decode", o.scaled_decode,
    "of a JPEG only the part that is used is decoded, at a fraction of its size where that will "
    "do");
  v("drop_last", o.drop_last, "leave out the samples that do not fill a batch");
  v("channels_last", o.channels_last, "batches lie in memory as NHWC, not NCHW");
  v("num_workers", o.num_workers, "threads that load; 0: the training thread does",
    {.min = 0, .max = 256});
  v("prefetch_factor", o.prefetch_factor, "finished batches that each worker may have waiting",
    {.min = 0, .max = 64});
  v("persistent_workers", o.persistent_workers, "workers live on from epoch to epoch");
  v("queue", o.queue, {"locked", "rings"}, "one queue under a lock, or a ring for each worker");
  v("background", o.background, "workers take only time that nothing else wants");
  v("device_randperm", o.device_randperm, "a keyed parallel permutation, not a serial shuffle");
  v("pin_memory", o.pin_memory, "batches are made in page-locked memory, for a GPU to fetch");
  v("non_blocking", o.non_blocking, "the next batch is copied to the GPU during a step");
  v("device_tensors", o.device_tensors, "the samples lie on the GPU, batches are gathered there");
  v("device_augment", o.device_augment,
    "pixels travel as bytes, and the GPU crops, flips and normalizes them");
  v("sim_latency_us", o.sim_latency_us, "sleep this long for each batch: a planted slow disk",
    {.min = 0, .max = 1e9});
  v("timeout_s", o.timeout_s,
    "how long to wait for a batch before giving up, and for another process that packs the data "
    "set",
    {.min = 1e-3, .max = 1e6});
}

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               const std::vector<TransformChoice>& transforms, const LoaderOptions& options,
               uint64_t seed, RankShare share)
    : options_(options),
      source_(new BatchSource{
          dataset,
          Transforms(transforms, dataset->info(), options.augment ? Use::training : Use::evaluation,
                     options.device_augment ? DoneBy::device : DoneBy::host, options.tta),
          seed, options.batch_size, options.pin_memory, options.on_damaged, options.scaled_decode,
          options.sim_latency_us, options.device_augment ? kNCHW : options.format()}),
      sampler_(dataset->size(),
               {options.batch_size, options.shuffle, options.drop_last, options.device_randperm},
               seed, share),
      maker_(source_) {}

Recipe Loader::recipe(int64_t epoch) const {
  Recipe recipe = transforms().recipe();
  recipe.seed = source_->seed;
  recipe.epoch = epoch;
  recipe.view = transforms().view(epoch);
  return recipe;
}

Loader::~Loader() { end_epoch(timeout()); }

void Loader::start(int64_t epoch, int64_t first_batch) {
  CHECK(first_batch >= 0 && first_batch <= batches(), "batch ", first_batch,
        " of an epoch that has ", batches());
  end_epoch(timeout());
  epoch_.reset(new Epoch{epoch, sampler_.order(epoch), first_batch, batches(), options_.batch_size,
                         nullptr});
  next_ = first_batch;
  if (options_.num_workers == 0) return;
  epoch_->queue =
      make_queue(options_.queue, options_.num_workers, options_.prefetch_factor, depth_);
  start_workers();
  for (const auto& worker : workers_) worker->run(epoch_);
}

void Loader::start_workers() {
  const int workers = static_cast<int>(options_.num_workers);
  if (!workers_.empty()) trace::counter("data.worker_reuses").add(workers);
  try {
    for (int w = static_cast<int>(workers_.size()); w < workers; ++w)
      workers_.push_back(std::make_unique<Worker>(source_, w, workers, options_.background));
  } catch (const std::system_error& error) {
    fail(Exit::memory, "no thread for loader worker ", workers_.size(), " of ", workers, ": ",
         error.what(), "; lower num_workers");
  }
}

// Closes the queue and waits until all workers are idle. Ends them unless they are persistent; if
// one is stuck, ends them in any case.
void Loader::stop_workers(Seconds patience) {
  if (epoch_ && epoch_->queue) epoch_->queue->close();
  bool stuck = false;
  // After one worker has used up the timeout, the others are only polled.
  for (const auto& worker : workers_)
    if (!worker->wait(stuck ? Seconds(0) : patience)) stuck = true;
  if (stuck || !options_.persistent_workers) workers_.clear();
}

void Loader::end_epoch(Seconds patience) {
  stop_workers(patience);
  epoch_.reset();
}

Made Loader::take() {
  Made made;
  if (epoch_->queue->pop(made, timeout())) return made;
  const Worker& worker = *workers_[(next_ - epoch_->first) % workers_.size()];
  const std::string where = worker.at_work_on();
  end_epoch(Seconds(0));
  fail(Exit::data, "no batch for ", options_.timeout_s, " s: ", where,
       "; data.timeout_s is how long to wait");
}

bool Loader::next(Batch& batch) {
  CHECK(epoch_, "start() an epoch before next()");
  batch = {};
  if (next_ == epoch_->last) return stop_workers(timeout()), false;
  Made made = workers_.empty() ? maker_.make(epoch_->samples_of(next_), epoch_->number) : take();
  if (made.error) {
    end_epoch(timeout());
    std::rethrow_exception(made.error);
  }
  ++next_;
  batch = std::move(made.batch);
  return true;
}

}  // namespace bellows
