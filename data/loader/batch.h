// Batch and Update: the samples of one training step, whole or split into micro-batches.
#pragma once
#include <exception>
#include "core/tensor/tensor.h"

namespace bellows {

// A handle. The loader reuses the buffer once no tensor shares it any more.
struct Batch {
  // (B, C, H, W), NCHW or NHWC. The loader makes f32, or u8 under device_augment; a device that
  // converts it makes ModelInput's dtype.
  Tensor x;
  Tensor y;          // (B) i64
  bool last = true;  // last micro-batch of its update
  double share = 1;  // fraction of the update's samples: weight of its mean loss
  int64_t size() const { return x.dim(0); }
};

// Result of a worker: a batch or an error.
struct Made {
  Batch batch;
  std::exception_ptr error;  // null if there is a batch
};

// The samples of one update, split into min(parts, samples) micro-batches whose sizes differ by at
// most one. They are views of the whole batch.
class Update {
 public:
  Update(const Batch& whole, int64_t parts);
  const Batch& whole() const { return whole_; }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  int64_t size() const { return static_cast<int64_t>(parts_.size()); }
  int64_t samples() const { return whole_.size(); }

 private:
  Batch whole_;
  std::vector<Batch, SmallBlockAllocator<Batch>> parts_;
};

inline Shape with_rows(int64_t n, const Shape& sample) {  // (n, C, H, W)
  return {n, sample[0], sample[1], sample[2]};
}

// Returns the samples begin <= i < end of a batch, as a view.
Batch slice(const Batch& batch, int64_t begin, int64_t end);

}  // namespace bellows
