// SideStream: work beside the current stream of a GPU. A second stream starts when the work queued
// so far is done, and the current stream goes on meanwhile and waits for it at the end:
//
//   const SideStream side(wanted);
//   side.run([&] { a(); });  // on the second stream
//   b();                     // beside it
//   // the destructor makes the current stream wait for a()
//
// Tensors that run() reads or writes are allocated before `side` and live longer than it.
// Temporaries of a() are allocated on the second stream and stay there. In a capture this becomes a
// fork and a join of the graph. Unless `wanted`, and on the CPU, all of it runs in order. Compute
// thread only.
#pragma once
#include "core/device/device.h"

namespace bellows {

class SideStream {
 public:
  explicit SideStream(bool wanted);
  ~SideStream();
  SideStream(SideStream&&) = delete;

  template <class Fn> void run(const Fn& fn) const {
    if (!wanted_) return fn();
    const StreamGuard on(stream_of(Device::cuda, StreamUse::side));
    fn();
  }

 private:
  bool wanted_;
};

}  // namespace bellows
