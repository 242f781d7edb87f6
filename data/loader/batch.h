// What one step trains on: a batch, or the micro-batches that it is split into.
#pragma once
#include <exception>
#include "core/tensor/tensor.h"

namespace bellows {

// A handle: the loader fills the buffer again once the last tensor that shares it is gone.
struct Batch {
  // (B, C, H, W), NCHW or NHWC. f32; u8 if a device is to make numbers of it, which then are of the
  // type that ModelInput asks for.
  Tensor x;
  Tensor y;          // (B) i64
  bool last = true;  // of its update
  double share = 1;  // of the update's samples: what its mean loss counts in the update's
  int64_t size() const { return x.dim(0); }
};

// What a worker hands over.
struct Made {
  Batch batch;
  std::exception_ptr error;  // why there is none
};

// The samples of one update in `parts` micro-batches of equal size, give or take one sample; fewer
// if there are not as many samples. They are views of the whole.
class Update {
 public:
  Update(const Batch& whole, int64_t parts);
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  int64_t size() const { return static_cast<int64_t>(parts_.size()); }
  int64_t samples() const { return samples_; }

 private:
  std::vector<Batch, PoolAllocator<Batch>> parts_;
  int64_t samples_;
};

inline Shape with_rows(int64_t n, const Shape& sample) {  // (n, C, H, W)
  return {n, sample[0], sample[1], sample[2]};
}

// The samples begin <= i < end of a batch, as a view.
Batch slice(const Batch& batch, int64_t begin, int64_t end);

}  // namespace bellows
