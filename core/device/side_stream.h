// SideStream: work beside the current stream of a GPU. A second stream starts when the work queued
// so far is done; the current stream goes on meanwhile, and waits for the second one at the end:
//
//   const SideStream side(wanted);
//   side.run([&] { a(); });  // on the second stream
//   b();                     // beside it
//   // the destructor makes the current stream wait for a()
//
// Tensors that run() reads or writes are allocated before `side` and live longer than it.
// Temporaries of a() are allocated on the second stream and stay there. In a capture this is a fork
// and a join of the graph. Unless `wanted`, all of it runs in order. Compute thread only.
#pragma once
#include <optional>
#include "core/base/check.h"
#include "core/base/trace.h"
#include "core/device/device.h"

namespace bellows {

class SideStream {
 public:
  explicit SideStream(bool wanted) {
    if (!wanted) return;
    trace::count<"cuda.forks">();
    event_.emplace(Device::cuda);
    order(current_stream(Device::cuda), stream_of(Device::cuda, StreamUse::side));
  }
  ~SideStream() {
    if (!event_) return;
    try {
      order(stream_of(Device::cuda, StreamUse::side), current_stream(Device::cuda));
    } catch (const Error&) {
      // A device that failed says so again at the next call.
    }
  }
  SideStream(SideStream&&) = delete;

  template <class Fn> void run(const Fn& fn) const {
    if (!event_) return fn();
    const StreamGuard on(stream_of(Device::cuda, StreamUse::side));
    fn();
  }

 private:
  // Later work of `to` waits for the work of `from` so far.
  void order(Stream from, Stream to) {
    event_->record(from);
    event_->hold(to);
  }

  std::optional<Event> event_;  // none: not wanted
};

}  // namespace bellows
