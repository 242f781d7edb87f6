// Graph: device work that is captured once and launched as a whole many times. Each launch uses the
// addresses of the capture and repeats the decisions that the host made during it.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "core/device/device.h"

namespace bellows {

class Graph {
 public:
  // Captures the work that `work` queues on the device's compute stream, and on streams that it
  // orders after that one; nothing runs. Throws Error if `work` waits for the device (exit 9), or
  // if the device has no graphs (exit 2).
  Graph(Device device, const std::function<void()>& work);
  Graph(Graph&&) = delete;
  ~Graph();

  void launch() const;  // queues the graph on the compute stream; increments graph.replays

 private:
  friend void keep_for_capture(std::shared_ptr<const void> what);
  Device device_;
  void* native_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// Makes the graph that this thread captures share the ownership of something that its launches
// need, such as a library's plan. No-op if this thread captures none.
void keep_for_capture(std::shared_ptr<const void> what);

// Returns true while a capture runs, on any thread. Its own thread must then not wait for the
// device, query events or measure time.
bool capturing();
// Calls fn() and returns true if no capture is running; none begins before fn() returns. Else
// returns false. For events that are queried later: recorded during a capture, they would belong to
// it (cudaErrorCapturedEvent).
bool outside_captures(const std::function<void()>& fn);

}  // namespace bellows
