#include "core/graph.h"
#include "core/check.h"
#include "core/trace.h"

namespace bellows {

Graph::Graph(Device device, const std::function<void()>& work) : device_(device) {
  const DeviceApi& api = api_of(device);
  CHECK(api.begin_capture, "the device ", device, " has no graphs");
  const Stream stream = stream_of(device);
  const CaptureGuard capture;
  api.begin_capture(stream);
  try {
    work();
  } catch (...) {
    api.drop_capture(stream);
    throw;
  }
  native_ = api.end_capture(stream, operations_);
  trace::counter("graph.captures").add();
}

Graph::~Graph() { api_of(device_).free_graph(native_); }

void Graph::launch() const {
  static trace::Counter& replays = trace::counter("graph.replays");
  replays.add();
  api_of(device_).launch_graph(native_, stream_of(device_));
}

}  // namespace bellows
