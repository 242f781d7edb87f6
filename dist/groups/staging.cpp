#include "dist/groups/staging.h"
#include <thread>
#include "core/base/trace.h"
#include "core/tensor/pinned.h"

namespace bellows {

Staging::Staging() : stream_(stream_of(Device::cuda, StreamUse::communicate)) {}

Tensor Staging::take(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = free_.find(bytes); found != free_.end())
      return free_.extract(found).mapped();
  }
  return pinned({int64_t(bytes)}, DType::u8);
}
void Staging::give_back(const Tensor& buffer) {
  const std::lock_guard lock(mutex_);
  free_.emplace(buffer.nbytes(), buffer);
}

StagedCopies::StagedCopies(std::shared_ptr<Staging> staging, const std::vector<StagedPart>& parts)
    : staging_(std::move(staging)), parts_(parts), arrived_(Device::cuda), returned_(Device::cuda) {
  const Stream stream = staging_->stream();
  arrived_.record(current_stream(Device::cuda));
  arrived_.hold(stream);
  for (const StagedPart& part : parts_) {
    host_.push_back(staging_->take(part.tensor.nbytes()));
    if (!part.in) continue;
    api_of(Device::cuda)
        .copy(host_.back().bytes(), part.tensor.bytes(), part.tensor.nbytes(), stream);
    trace::count<"dist.staged_bytes">(part.tensor.nbytes());
  }
  arrived_.record(stream);
}

void StagedCopies::wait(Timeout timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!arrived_.ready()) {
    if (std::chrono::steady_clock::now() > end)
      fail(Exit::distributed, "the GPU has not computed the values in time");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void StagedCopies::copy_back() {
  const Stream stream = staging_->stream();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Tensor& t = parts_[i].tensor;
    if (parts_[i].out) {
      api_of(Device::cuda).copy(t.bytes(), host_[i].bytes(), t.nbytes(), stream);
      trace::count<"dist.staged_bytes">(t.nbytes());
    }
    staging_->give_back(host_[i]);
  }
  returned_.record(stream);
}

void StagedCopies::hold() const { returned_.hold(current_stream(Device::cuda)); }

}  // namespace bellows
