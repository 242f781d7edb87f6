// Worker: a loader thread. It makes every W-th batch of an epoch and pushes it into the queue.
#pragma once
#include <thread>
#include "data/loader/batch_maker.h"
#include "data/loader/batch_queue.h"

namespace bellows {

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
void visit(Visitor& v, WorkerOptions& o);

// One pass over the samples of a rank, from batch `first` on.
struct Epoch {
  int64_t number;
  EpochPlan plan;
  int64_t first, last;                // batches: first <= b < last
  std::unique_ptr<BatchQueue> queue;  // null without workers
};

class Worker {
 public:
  // Starts the thread, which calls no parallel_for: see core/device/parallel.h.
  Worker(std::shared_ptr<const BatchSource> source, int index, int workers);
  Worker(Worker&&) = delete;
  // Joins the thread. Detaches it if wait() timed out; it shares ownership of all that it uses.
  ~Worker();

  // Starts an epoch, once the previous one is done.
  void run(std::shared_ptr<Epoch> epoch);
  // Waits for the end of the epoch, whose queue must be closed or empty. False after `timeout`.
  bool wait(Seconds timeout);
  // For messages: "worker 1 is at sample 7 (path)".
  std::string at_work_on() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
  bool abandoned_ = false;
};

}  // namespace bellows
