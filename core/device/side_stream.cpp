#include "core/device/side_stream.h"
#include <optional>
#include "core/base/check.h"
#include "core/base/trace.h"

namespace bellows {

// `to` waits for all work that `from` has now. A wait refers to the latest record, so one event
// serves all forks and joins.
static void order(Stream from, Stream to) {
  static thread_local std::optional<Event> event;
  if (!event) event.emplace(Device::cuda);
  event->record(from);
  event->hold(to);
}

SideStream::SideStream(bool wanted) : wanted_(wanted) {
  static trace::Counter& forks = trace::counter("cuda.forks");
  if (!wanted_) return;
  forks.add();
  order(current_stream(Device::cuda), stream_of(Device::cuda, StreamUse::side));
}

SideStream::~SideStream() {
  if (!wanted_) return;
  try {
    order(stream_of(Device::cuda, StreamUse::side), current_stream(Device::cuda));
  } catch (const Error&) {
    // A device that failed reports it again at the next call.
  }
}

}  // namespace bellows
