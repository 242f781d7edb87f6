// Feed: where the loop gets its batches from. The loader is one; on a device the loop reads another
// one, which takes the loader's batches there (data/feeds/device_feed.h).
//
//   feed.start(epoch);
//   for (Batch batch; feed.next(batch);) step(batch);
//
// Whoever measures what it waits for calls catch_up() before each next().
#pragma once
#include "data/loader/batch.h"

namespace bellows {

class Feed {
 public:
  virtual ~Feed() = default;
  // Begins an epoch, at some batch of it; one that is under way is dropped.
  virtual void start(int64_t epoch, int64_t first_batch = 0) = 0;
  // Waits for a device that is behind, so that next() has only data to wait for.
  virtual void catch_up() {}
  // The next batch, into a handle that is emptied first so that its buffer can be used again. False
  // at the end of the epoch. What went wrong with a batch is thrown when it is due.
  virtual bool next(Batch& batch) = 0;
};

}  // namespace bellows
