// Feed: the training loop's source of batches. The loader is one; on a device the loop reads a
// feed that delivers the loader's batches there (data/feeds/device_feed.h).
//
//   feed.start(epoch);
//   for (Batch batch; feed.next(batch);) step(batch);
//
// To measure how long next() waits for data alone, call catch_up() before it.
#pragma once
#include "data/loader/batch.h"

namespace bellows {

class Visitor;

// Selects the feed of a GPU. device_augment also applies to the CPU.
struct FeedOptions {
  bool non_blocking = false;    // batches are copied to the device ahead of use
  bool device_tensors = false;  // samples stay on the device, batches are gathered there
  bool device_augment = false;  // batches are bytes; the device runs the transforms it can
};
void visit(Visitor& v, FeedOptions& o);

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

}  // namespace bellows
