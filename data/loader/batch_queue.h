// BatchQueue: finished batches between the workers and the training thread, in the epoch's order.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include "core/base/trace.h"
#include "data/loader/batch.h"

namespace bellows {

using Seconds = std::chrono::duration<double>;

// Number of items that wait in a queue. Its maximum is added to the counter data.queue_max. Each
// loader has one Depth, so the counter is the sum of the loaders' maxima.
class Depth {
 public:
  // Call after acquiring room for the item, before it can be taken.
  void add() {
    const int64_t now = now_.fetch_add(1, std::memory_order_acq_rel) + 1;
    int64_t before = most_.load(std::memory_order_relaxed);
    while (before < now && !most_.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
    if (before < now) trace::count<"data.queue_max">(now - before);
  }
  // Call when a consumer requests an item, before the request makes room for another one.
  void remove() { now_.fetch_sub(1, std::memory_order_acq_rel); }
  void clear() { now_.store(0, std::memory_order_relaxed); }  // the queue was dropped

 private:
  std::atomic<int64_t> now_{0}, most_{0};
};

enum class QueueKind { locked, rings };
using Interrupted = std::function<bool()>;

// A turn is the number of a batch, from 0; worker w of W makes turns w, w + W, w + 2 W, ...
class BatchQueue {
 public:
  virtual ~BatchQueue() = default;
  virtual bool push(int64_t turn, BatchResult&& made) = 0;  // waits for room; false once closed
  // Takes the batch of the next turn. Returns false if it did not arrive within `timeout`, or once
  // interrupted() (empty: never), called every 0.1 s, is true. The caller then closes the queue.
  virtual bool pop(BatchResult& made, Seconds timeout, const Interrupted& interrupted) = 0;
  virtual void close() = 0;  // threads that wait in push() return
};

// Makes a queue in which up to `prefetch` batches per worker may wait. `depth` counts them until
// the queue is closed; it is shared because a worker that is stuck can outlive the loader. Counter,
// with rings: data.ring_pops.
std::unique_ptr<BatchQueue> make_queue(QueueKind kind, int64_t workers, int64_t prefetch,
                                       std::shared_ptr<Depth> depth);

}  // namespace bellows
