#include "core/device/graph.h"
#include <atomic>
#include <mutex>
#include <type_traits>
#include "core/base/check.h"
#include "core/base/trace.h"

namespace bellows {

// Number of captures in progress. It increases under the lock and decreases without it. Reads
// without the lock may be stale.
static constinit std::atomic<int> captures{0};
// Needs no destructor: tensors in static objects are released after main().
static constinit std::mutex captures_mutex;
static_assert(std::is_trivially_destructible_v<std::mutex>);

bool capturing() { return captures.load(std::memory_order_relaxed) > 0; }

bool outside_captures(const std::function<void()>& fn) {
  const std::lock_guard lock(captures_mutex);
  if (capturing()) return false;
  fn();
  return true;
}

static thread_local Graph* captured_here = nullptr;

void keep_for_capture(std::shared_ptr<const void> what) {
  if (captured_here) captured_here->kept_.push_back(std::move(what));
}

Graph::Graph(Device device, const std::function<void()>& work) : device_(device) {
  const DeviceApi& api = api_of(device);
  CHECK(api.begin_capture, "the device ", device, " has no graphs");
  const Stream stream = stream_of(device);
  {
    const std::lock_guard lock(captures_mutex);
    api.begin_capture(stream);
    ++captures;
  }
  try {
    captured_here = this;
    work();
    captured_here = nullptr;
    native_ = api.end_capture(stream);
  } catch (...) {
    captured_here = nullptr;
    api.drop_capture(stream);
    --captures;
    throw;
  }
  --captures;
  trace::count<"graph.captures">();
}

Graph::~Graph() { api_of(device_).free_graph(native_); }

void Graph::launch() const {
  trace::count<"graph.replays">();
  api_of(device_).launch_graph(native_, stream_of(device_));
}

}  // namespace bellows
