// Losses of a run. The host reads each one at once, or all of a log window together (the toggle
// sync_free_logging). Both give the same values.
#pragma once
#include <vector>
#include "data/loader/batch.h"

namespace bellows {

class Losses {
 public:
  Losses(bool deferred, Device device);

  // Adds the losses of the micro-batches of an update. Each is a scalar on the device.
  void add(const Tensors& losses, const Update& update);
  void end_update();
  void read();  // copies the losses in slots_ to the host

  // Loss of each update, in order. Deferred: only of updates before the last read().
  const std::vector<double>& known() const { return known_; }

 private:
  struct Part {
    double share;
    bool last = false;  // of its update
  };
  bool deferred_;
  Tensor slots_;             // (kSlots) on the device: losses not read yet
  std::vector<Part> parts_;  // one per used slot
  double sum_ = 0;           // of the update in progress
  std::vector<double> known_;
};

}  // namespace bellows
