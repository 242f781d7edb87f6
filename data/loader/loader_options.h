// Options of a loader: how the samples of a data set become batches.
#pragma once
#include "data/images/tta.h"
#include "data/loader/batch_queue.h"
#include "data/loader/sampler.h"
#include "data/sets/damaged.h"

namespace bellows {

struct LoaderOptions {
  int64_t batch_size = 64;
  bool shuffle = true;
  Order order = Order::random;
  int64_t window = 64;  // pages that a quasi-random order shuffles together
  bool augment = true;  // off: transforms are deterministic, as in evaluation
  Tta tta = Tta::none;  // for evaluation: an epoch is one view
  OnDamaged on_damaged = OnDamaged::error;
  bool scaled_decode = false;
  bool drop_last = false;
  bool channels_last = false;   // batches are made in NHWC
  int64_t num_workers = 0;      // threads; 0: next() makes the batch
  int64_t prefetch_factor = 0;  // finished batches that may wait, per worker
  bool persistent_workers = false;
  QueueKind queue = QueueKind::locked;
  bool background = false;
  bool device_randperm = false;
  bool pin_memory = false;      // batches are made in page-locked memory
  bool non_blocking = false;    // batches are copied to the device ahead of use
  bool device_tensors = false;  // samples stay on the device, batches are gathered there
  bool device_augment = false;  // batches are bytes; the device runs the transforms it can
  int64_t sim_latency_us = 0;
  double timeout_s = 60;
  const MemoryFormat& format() const { return channels_last ? kNHWC : kNCHW; }
};
void visit(Visitor& v, LoaderOptions& o);

}  // namespace bellows
