// Between the workers and whoever trains: finished batches, handed out in the order of the epoch.
#pragma once
#include <memory>
#include "data/loader/batch.h"
#include "data/loader/ring.h"

namespace bellows {

enum class QueueKind { locked, rings };

// `turn` counts the batches from 0; worker w makes the turns w, w + W, w + 2 W, ...
class BatchQueue {
 public:
  virtual ~BatchQueue() = default;
  virtual bool push(int64_t turn, Made&& made) = 0;  // waits for room; false once closed
  // The next turn. False if it did not come in time: then the queue is to be closed.
  virtual bool pop(Made& made, Seconds timeout) = 0;
  virtual void close() = 0;  // whoever waits in push() returns
};

// `prefetch` batches of each worker may wait in it; `depth` counts them, until it is closed, and is
// shared because a worker that was given up on outlives the loader. Each pop of a ring counts in
// data.ring_pops.
std::unique_ptr<BatchQueue> make_queue(QueueKind kind, int64_t workers, int64_t prefetch,
                                       std::shared_ptr<Depth> depth);

}  // namespace bellows
