// Losses of a run, and the terms of a loss that is a sum. The host reads each loss at once, or all
// losses of a log window together (the toggle sync_free_logging). The values are the same.
#pragma once
#include <vector>
#include "core/tensor/tensor.h"
#include "data/loader/batch.h"
#include "models/losses/loss.h"

namespace bellows {

class Losses {
 public:
  Losses(bool deferred, Device device);

  // Adds the losses of the micro-batches of an update. Each is a scalar on the device.
  void add(const Tensors& losses, const Update& update);
  void end_update();
  void read();  // copies the losses in slots_ to the host

  // Loss of each update, in order. If deferred, only of updates before the last read().
  const std::vector<double>& known() const { return known_; }

 private:
  struct Part {
    double share;
    bool last = false;  // last part of its update
  };
  bool deferred_;
  Tensor slots_;             // (kSlots) on the device: losses not read yet
  std::vector<Part> parts_;  // one per used slot
  double sum_ = 0;           // over the update in progress
  std::vector<double> known_;
};

// The terms of a loss, summed over the updates since the last take(). They are summed on the
// device, so a captured update adds its own. A resumed run begins with none.
class LossTerms {
 public:
  LossTerms() = default;
  LossTerms(const LossOptions& loss, Device device);
  // Adds the terms of a micro-batch, scalars on the device.
  void add(const NamedTensors& terms, const Batch& batch);
  // Returns sum(batch.share * term) for each of names(), then sum(batch.fraction); empty if the
  // loss has no terms. Waits for the device.
  std::vector<double> take();
  const std::vector<std::string>& names() const { return names_; }
  const Tensors& sums() const { return sums_; }  // f32 scalars, in the order of take()

 private:
  std::vector<std::string> names_;
  Tensors sums_;
};

}  // namespace bellows
