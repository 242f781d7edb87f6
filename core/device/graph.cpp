#include "core/device/graph.h"
#include <utility>
#include "core/base/check.h"
#include "core/base/trace.h"

namespace bellows {

static bool& in_capture() {
  static thread_local bool capturing = false;
  return capturing;
}
bool capturing() { return in_capture(); }

Graph::Graph(Device device, const std::function<void()>& work) : device_(device) {
  const DeviceApi& api = api_of(device);
  CHECK(api.begin_capture, "the device ", device, " has no graphs");
  const Stream stream = stream_of(device);
  api.begin_capture(stream);
  in_capture() = true;
  try {
    work();
  } catch (...) {
    in_capture() = false;
    api.drop_capture(stream);
    throw;
  }
  in_capture() = false;
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
