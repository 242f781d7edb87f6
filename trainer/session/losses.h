// The losses of a run. The host reads each as it comes, or all of a log window at once (the toggle
// sync_free_logging): the same numbers either way.
#pragma once
#include <vector>
#include "data/loader/batch.h"

namespace bellows {

class Losses {
 public:
  Losses(bool deferred, Device device);

  // Of the micro-batches of an update.
  void add(const Tensors& losses, const Update& update);
  void end_update();
  void read();  // what the host has not seen yet

  // Of each update, in order; deferred: of those before the last read().
  const std::vector<double>& known() const { return known_; }

 private:
  struct Part {
    double share;
    bool last = false;  // of its update
  };
  bool deferred_;
  Tensor slots_;             // (kSlots) on the device: losses that the host has not seen yet
  std::vector<Part> parts_;  // of the first so many slots
  double sum_ = 0;           // of the update that has begun
  std::vector<double> known_;
};

}  // namespace bellows
