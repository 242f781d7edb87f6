#include "data/loader/worker.h"
#include "core/config/visitor.h"
#include "core/device/start_thread.h"
#include "core/device/threads.h"

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
    {.min = 1e-3, .max = 1e6});
}

// All data that the thread uses. Shared with it, because a stuck thread cannot be joined.
struct Worker::State {
  State(std::shared_ptr<const BatchSource> source, int index, int workers)
      : index(index), workers(workers), maker(std::move(source)) {}
  void work();
  void make_all();

  const int index, workers;
  BatchMaker maker;
  std::shared_ptr<Epoch> epoch;  // guarded by the semaphores; null: the thread ends
  std::binary_semaphore start{0}, idle{1};
};

void Worker::State::work() {
  for (;;) {
    start.acquire();
    if (!epoch) return;
    make_all();
    epoch.reset();
    idle.release();
  }
}

void Worker::State::make_all() {
  for (int64_t b = epoch->first + index; b < epoch->last; b += workers) {
    BatchResult made = maker.make(epoch->plan, b, epoch->number);
    trace::count<"data.worker_batches">();
    if (!epoch->queue->push(b - epoch->first, std::move(made))) return;
  }
}

Worker::Worker(std::shared_ptr<const BatchSource> source, int index, int workers)
    : state_(std::make_shared<State>(std::move(source), index, workers)),
      thread_(start_thread(cat("loader/", index), [state = state_] { state->work(); })) {
  trace::count<"data.worker_starts">();
}

Worker::~Worker() {
  state_->start.release();  // with a null epoch: ends the thread
  abandoned_ ? thread_.detach() : thread_.join();
}

void Worker::run(std::shared_ptr<Epoch> epoch) {
  state_->idle.acquire();
  state_->epoch = std::move(epoch);
  state_->start.release();
}

bool Worker::wait(Seconds timeout) {
  abandoned_ = !state_->idle.try_acquire_for(timeout);
  if (!abandoned_) state_->idle.release();
  return !abandoned_;
}

std::string Worker::at_work_on() const {
  return cat("worker ", state_->index, " ", state_->maker.at_work_on());
}

}  // namespace bellows
