// Staging: pinned memory through which a GPU's tensors reach collectives that run on the CPU.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
#include "core/base/trace.h"
#include "core/tensor/pinned.h"
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
  const Stream stream = stream_of(Device::cuda, StreamUse::communicate);

  Tensor take(size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.find(bytes); found != free_.end())
        return free_.extract(found).mapped();
    }
    return pinned({int64_t(bytes)}, DType::u8);
  }
  void give_back(const Tensor& buffer) {
    const std::lock_guard lock(mutex_);
    free_.emplace(buffer.nbytes(), buffer);
  }

 private:
  std::mutex mutex_;
  std::multimap<size_t, Tensor> free_;  // by size
};

// The copies of one collective. The compute thread constructs it and calls hold(); the thread that
// runs the collective calls the others, in this order. Counter: dist.staged_bytes (copied).
class StagedCopies {
 public:
  // Queues copies to the host, after all work queued so far on the current stream.
  StagedCopies(std::shared_ptr<Staging> staging, const std::vector<StagedPart>& parts)
      : staging_(std::move(staging)), parts_(parts) {
    arrived_.record(current_stream(Device::cuda));
    arrived_.hold(staging_->stream);
    for (const StagedPart& part : parts_) {
      host_.push_back(staging_->take(part.tensor.nbytes()));
      if (part.in) copy(host_.back(), part.tensor);
    }
    arrived_.record(staging_->stream);
  }
  // Blocks until the copies are done. Throws Error, exit 7, after the timeout.
  void wait(Timeout timeout) const {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!arrived_.ready()) {
      if (std::chrono::steady_clock::now() > end)
        fail(Exit::distributed, "the GPU has not computed the values in time");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  const Tensors& host() const { return host_; }  // in the order of the parts; u8, rank 1
  // Queues the copies to the device.
  void copy_back() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].out) copy(parts_[i].tensor, host_[i]);
      staging_->give_back(host_[i]);
    }
    returned_.record(staging_->stream);
  }
  // Makes later work of the current stream see them; after copy_back().
  void hold() const { returned_.hold(current_stream(Device::cuda)); }

 private:
  void copy(const Tensor& to, const Tensor& from) const {
    api_of(Device::cuda).copy(to.bytes(), from.bytes(), from.nbytes(), staging_->stream);
    trace::count<"dist.staged_bytes">(from.nbytes());
  }

  const std::shared_ptr<Staging> staging_;
  const std::vector<StagedPart> parts_;
  Tensors host_;
  Event arrived_{Device::cuda}, returned_{Device::cuda};
};

}  // namespace bellows
