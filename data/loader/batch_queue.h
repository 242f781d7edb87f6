// BatchQueue: finished batches between the workers and the training thread, in the epoch's order.
#pragma once
#include <memory>
#include "data/loader/batch.h"
#include "data/loader/ring.h"

namespace bellows {

enum class QueueKind { locked, rings };

// A turn is the number of a batch, from 0; worker w of W makes turns w, w + W, w + 2 W, ...
class BatchQueue {
 public:
  virtual ~BatchQueue() = default;
  virtual bool push(int64_t turn, Made&& made) = 0;  // waits for room; false once closed
  // Takes the batch of the next turn. False if it did not arrive within `timeout`; the caller must
  // close the queue then.
  virtual bool pop(Made& made, Seconds timeout) = 0;
  virtual void close() = 0;  // threads that wait in push() return
};

// Makes a queue in which up to `prefetch` batches per worker may wait. `depth` counts them until
// the queue is closed; it is shared because a worker that is stuck can outlive the loader. Counter,
// with rings: data.ring_pops.
std::unique_ptr<BatchQueue> make_queue(QueueKind kind, int64_t workers, int64_t prefetch,
                                       std::shared_ptr<Depth> depth);

}  // namespace bellows
