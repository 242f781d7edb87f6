// Staging: pinned memory through which a GPU's tensors reach collectives that run on the CPU.
#pragma once
#include <map>
#include <mutex>
#include <vector>
#include "core/tensor/tensor.h"
#include "dist/rendezvous/store.h"

namespace bellows {

// A tensor of a collective, which reads it, writes it, or both.
struct StagedPart {
  Tensor tensor;
  bool in, out;
};

// Pinned buffers, which later collectives reuse: a page-locked allocation waits for the device. All
// copies are queued on one stream, so a copy into a buffer follows its earlier uses. Thread-safe.
class Staging {
 public:
  Staging();
  Stream stream() const { return stream_; }
  Tensor take(size_t bytes);
  void give_back(const Tensor& buffer);

 private:
  const Stream stream_;
  std::mutex mutex_;
  std::multimap<size_t, Tensor> free_;  // by size
};

// The copies of one collective. The compute thread constructs it and calls hold(); the thread that
// runs the collective calls the others, in this order. Counter: dist.staged_bytes (copied).
class StagedCopies {
 public:
  // Queues copies to the host, after all work queued so far on the current stream.
  StagedCopies(std::shared_ptr<Staging> staging, const std::vector<StagedPart>& parts);
  // Blocks until the copies are done. Throws Error, exit 7, after the timeout.
  void wait(Timeout timeout) const;
  const Tensors& host() const { return host_; }  // in the order of the parts; u8, rank 1
  void copy_back();                              // queues the copies to the device
  void hold() const;  // makes later work of the current stream see them; after copy_back()

 private:
  const std::shared_ptr<Staging> staging_;
  const std::vector<StagedPart> parts_;
  Tensors host_;
  Event arrived_, returned_;
};

}  // namespace bellows
