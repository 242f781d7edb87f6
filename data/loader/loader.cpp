#include "data/loader/loader.h"
#include <fmt/format.h>
#include <thread>
#include "core/base/statistics.h"
#include "core/base/trace.h"
#include "core/config/visitor.h"
#include "core/device/parallel.h"
#include "core/device/threads.h"
#include "data/images/image_file.h"
#include "data/loader/loader_law.h"

namespace bellows {

void visit(Visitor& v, WorkerOptions& o) {
  v("num_workers", o.num_workers,
    "threads that make batches; 0: the training thread does; auto: as many as hide the loading",
    {.min = kAutoWorkers, .max = 256, .auto_is_min = true});
  v("prefetch_factor", o.prefetch_factor, "finished batches that may wait, per worker",
    {.min = 0, .max = 64});
  v("persistent_workers", o.persistent_workers, "keep the threads from epoch to epoch");
  v("queue", o.queue, {"locked", "rings"}, "one queue under a lock, or a ring for each worker");
  v("timeout_s", o.timeout_s,
    "how long to wait for a batch before giving up, and for another process that packs the data "
    "set",
    {.min = 1e-3, .max = 1e6})
      .resumable();
}

void visit(Visitor& v, FeedOptions& o) {
  v("non_blocking", o.non_blocking, "the next batch is copied to the GPU during a step");
  v("device_tensors", o.device_tensors, "the GPU keeps the samples and gathers batches there");
  v("device_augment", o.device_augment,
    "pixels are copied as bytes, and the GPU crops, flips and normalizes them");
}

void visit(Visitor& v, LoaderOptions& o) {
  visit(v, o.sampler);
  visit(v, o.batch);
  visit(v, o.workers);
  visit(v, o.feed);
}

// One pass over the samples of a rank, from batch `first` on.
struct Loader::Epoch {
  int64_t number;
  EpochPlan plan;
  int64_t first, last;                // batches: first <= b < last
  std::unique_ptr<BatchQueue> queue;  // null without workers
};

// A thread that makes every W-th batch of an epoch and pushes it into the queue. It calls no
// parallel_for: see core/device/parallel.h.
class Loader::Worker {
 public:
  Worker(std::shared_ptr<const BatchSource> source, int index, int workers)
      : index_(index),
        state_(std::make_shared<State>(std::move(source))),
        thread_(start_thread(cat("loader/", index),
                             [=, state = state_] { state->work(index, workers); })) {
    trace::count<"data.worker_starts">();
  }
  Worker(Worker&&) = delete;
  ~Worker() {
    state_->start.release();  // with a null epoch: ends the thread
    abandoned_ ? thread_.detach() : thread_.join();
  }

  // Starts an epoch, once the previous one is done.
  void run(std::shared_ptr<Epoch> epoch) {
    state_->idle.acquire();
    state_->epoch = std::move(epoch);
    state_->start.release();
  }
  // Waits for the end of the epoch, whose queue must be closed or empty. False after `timeout`.
  bool wait(Seconds timeout) {
    abandoned_ = !state_->idle.try_acquire_for(timeout);
    if (!abandoned_) state_->idle.release();
    return !abandoned_;
  }
  // For messages: "worker 1 is at sample 7 (path)".
  std::string at_work_on() const { return cat("worker ", index_, " ", state_->maker.at_work_on()); }

 private:
  // All data that the thread uses. Shared with it, because a stuck thread cannot be joined.
  struct State {
    explicit State(std::shared_ptr<const BatchSource> source) : maker(std::move(source)) {}
    void work(int index, int workers) {
      for (start.acquire(); epoch; start.acquire()) {
        for (int64_t b = epoch->first + index; b < epoch->last; b += workers) {
          BatchResult made = maker.make(epoch->plan, b, epoch->number);
          trace::count<"data.worker_batches">();
          if (!epoch->queue->push(b - epoch->first, std::move(made))) break;
        }
        epoch.reset();
        idle.release();
      }
    }

    BatchMaker maker;
    std::shared_ptr<Epoch> epoch;  // guarded by the semaphores; null: the thread ends
    std::binary_semaphore start{0}, idle{1};
  };

  const int index_;
  const std::shared_ptr<State> state_;
  std::thread thread_;
  bool abandoned_ = false;
};

static Sampler sampler_of(const Dataset& dataset, const SamplerOptions& options, uint64_t seed,
                          const RankShare& share) {
  const Arrays* const arrays = dataset.arrays();
  const bool vary = arrays && arrays->lengths.defined();
  return {dataset.size(), options, seed, share,
          vary ? arrays->lengths.data<int64_t>() : std::span<const int64_t>()};
}

Loader::Loader(const DatasetPtr& dataset, const std::vector<TransformChoice>& transforms,
               const LoaderOptions& options, uint64_t seed, RankShare share)
    : options_(options),
      source_(new BatchSource{
          .dataset = dataset,
          .sampler = sampler_of(*dataset, options.sampler, seed, share),
          .transforms = {transforms, dataset->info(),
                         options.batch.augment ? TransformMode::training
                                               : TransformMode::evaluation,
                         options.feed.device_augment ? DoneBy::device : DoneBy::host},
          .seed = seed,
          .options = options.batch,
          .format = options.feed.device_augment ? kNCHW : options.batch.format()}),
      maker_(source_) {}

Recipe Loader::recipe(int64_t epoch) const {
  Recipe recipe = transforms().recipe();
  recipe.seed = source_->seed;
  recipe.epoch = epoch;
  return recipe;
}

// Does not wait for a worker whose batch takes longer, as from a slow disk: after a stop signal, a
// supervisor may not wait either.
Loader::~Loader() { end_epoch(std::min(timeout(), Seconds(1))); }

void Loader::start(int64_t epoch, int64_t first_batch) {
  CHECK(first_batch >= 0 && first_batch <= batches(), "batch ", first_batch,
        " of an epoch that has ", batches());
  end_epoch(timeout());
  epoch_.reset(new Epoch{.number = epoch,
                         .plan = sampler().plan(epoch),
                         .first = first_batch,
                         .last = batches(),
                         .queue = nullptr});
  next_ = first_batch;
  returned_ns_ = trace::now_ns();  // an evaluation between epochs is not part of a step
  const WorkerOptions& o = options_.workers;
  if (workers_now_ == 0) return;
  epoch_->queue = make_queue(o.queue, workers_now_, o.prefetch_factor, depth_);
  start_workers();
  for (const auto& worker : workers_) worker->run(epoch_);
}

void Loader::start_workers() {
  const int workers = static_cast<int>(workers_now_);
  if (!workers_.empty()) trace::count<"data.worker_reuses">(workers);
  for (int w = static_cast<int>(workers_.size()); w < workers; ++w)
    workers_.push_back(std::make_unique<Worker>(source_, w, workers));
}

// Closes the queue and waits until all workers are idle. Ends them unless they are persistent; if
// one is stuck, ends them in any case.
void Loader::stop_workers(Seconds patience) {
  if (epoch_ && epoch_->queue) epoch_->queue->close();
  bool stuck = false;
  // After one worker has used up the timeout, the others are only polled.
  for (const auto& worker : workers_)
    if (!worker->wait(stuck ? Seconds(0) : patience)) stuck = true;
  if (stuck || !options_.workers.persistent_workers) workers_.clear();
}

void Loader::end_epoch(Seconds patience) {
  stop_workers(patience);
  epoch_.reset();
}

BatchResult Loader::take() {
  BatchResult made;
  if (epoch_->queue->pop(made, timeout(), interrupted)) return made;
  const Worker& worker = *workers_[(next_ - epoch_->first) % workers_.size()];
  const std::string where = worker.at_work_on();
  end_epoch(Seconds(0));
  if (interrupted && interrupted()) return made;  // without a batch
  fail(Exit::data, "no batch for ", options_.workers.timeout_s, " s: ", where,
       "; raise data.timeout_s to wait longer");
}

// The first updates are slower, so the observation begins after some.
constexpr int64_t kSkipped = 16, kObserved = 48;

void Loader::observe(int64_t asked_ns) {
  if (taken_ == kSkipped) {
    made_ = making_time().batches;
    making_ns_ = making_time().ns;
  }
  if (taken_ > kSkipped) gaps_ns_.push_back(double(asked_ns - returned_ns_));
  if (taken_ == kObserved) choose_workers();
}

void Loader::choose_workers() {
  const double made = double(std::max<int64_t>(1, making_time().batches - made_));
  const double load = double(making_time().ns - making_ns_) / made;
  // Leaves out the slowest tenth, because a few calls also save or draw. The median would be too
  // small: after a wait for a device, several calls only queue work.
  std::ranges::sort(gaps_ns_);
  gaps_ns_.resize(gaps_ns_.size() * 9 / 10);
  const double compute = std::max(1.0, mean(gaps_ns_));
  const int64_t most = 4 * allowed_cores();
  const int64_t wanted = std::min(LoaderLaw{load, compute}.knee(), most);
  news_ = fmt::format("workers: {}, because one takes {:.3g} ms for a batch and a step {:.3g} ms",
                      wanted, 1e-6 * load, 1e-6 * compute);
  if (std::exchange(workers_now_, wanted) == wanted) return;
  const int64_t number = epoch_->number, from = next_;
  end_epoch(timeout());
  workers_.clear();  // a worker makes every W-th batch, and W changes
  start(number, from);
}

std::string Loader::take_news() { return std::exchange(news_, {}); }

bool Loader::next(Batch& batch) {
  CHECK(epoch_, "start() an epoch before next()");
  batch = {};
  const bool observes = options_.workers.num_workers == kAutoWorkers && taken_ <= kObserved;
  if (observes && next_ < epoch_->last) observe(trace::now_ns());
  if (next_ == epoch_->last) return stop_workers(timeout()), false;
  BatchResult made = workers_.empty() ? maker_.make(epoch_->plan, next_, epoch_->number) : take();
  if (made.error) {
    end_epoch(timeout());
    std::rethrow_exception(made.error);
  }
  if (!made.batch.x.defined()) return false;
  ++next_;
  batch = std::move(made.batch);
  if (observes) ++taken_, returned_ns_ = trace::now_ns();
  return true;
}

// ---- checking sizes before training

// Transforms refuse only images that are too small, so a list that takes one pixel takes any size.
static bool take_any_size(const Transforms& transforms, int64_t channels) {
  try {
    transforms.plan({channels, 1, 1}, 0, 0, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

static Shape shape_at(const Dataset& dataset, int64_t index) {
  if (const auto sample = dataset.encoded(index)) return image_shape(sample->file);
  Scratch scratch;
  return dataset.at(index, scratch).shape;
}

void check_sizes(const Loader& loader) {
  const Dataset& dataset = loader.dataset();
  const Shape& sample = dataset.info().input.shape;
  if (dataset.arrays() || sample.numel() || take_any_size(loader.transforms(), sample[0])) return;
  parallel_for(dataset.size(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      at_sample(dataset, i, loader.options().batch.on_damaged,
                [&] { loader.transforms().plan(shape_at(dataset, i), 0, 0, i); });
  });
}

}  // namespace bellows
