// A graph: work of a device that was captured once and is launched again as a whole. The addresses
// it works on are those of its capture, and so is everything that the host decided meanwhile.
#pragma once
#include <functional>
#include <memory>
#include "core/device/device.h"

namespace bellows {

class Graph {
 public:
  // Captures what `work` puts into the device's compute stream, and into streams that it orders
  // after that one; nothing runs. Refuses work that waits.
  Graph(Device device, const std::function<void()>& work);
  Graph(Graph&&) = delete;
  ~Graph();

  void launch() const;         // in the compute stream; counted as graph.replays
  int64_t operations() const { return operations_; }

 private:
  Device device_;
  void* native_;
  int64_t operations_ = 0;
};

// The work that this thread hands to a device is being captured: nothing may wait, ask or measure.
bool capturing();

}  // namespace bellows
