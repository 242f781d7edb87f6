// Batch and Update: the samples of one training step, whole or split into micro-batches.
// BatchBuffers: reusable memory in which batches are made.
#pragma once
#include <algorithm>
#include <exception>
#include <functional>
#include "core/tensor/tensor.h"

namespace bellows {

// A handle. The loader reuses the buffer once no tensor shares it any more.
struct Batch {
  // (B, C, H, W), NCHW or NHWC. The loader makes f32, or u8 under device_augment; a device that
  // converts it makes ModelInput's dtype.
  Tensor x;
  Tensor y;          // (B) i64
  bool last = true;  // last micro-batch of its update
  double share = 1;  // weight of its mean loss: its fraction of the update's samples
  int64_t size() const { return x.dim(0); }
};

// Result of a worker: a batch or an error.
struct BatchResult {
  Batch batch;
  std::exception_ptr error;  // null if there is a batch
};

// The samples of one update, split into min(parts, samples) micro-batches whose sizes differ by at
// most one. They are views of the whole batch. `weight` multiplies their shares: it is the weight
// of this rank's batch among those of all ranks.
class Update {
 public:
  Update(const Batch& whole, int64_t parts, double weight = 1);
  const Batch& whole() const { return whole_; }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  int64_t size() const { return static_cast<int64_t>(parts_.size()); }
  int64_t samples() const { return whole_.size(); }
  double weight() const { return weight_; }

 private:
  Batch whole_;
  double weight_;
  std::vector<Batch, SmallBlockAllocator<Batch>> parts_;
};

inline Shape with_rows(int64_t n, const Shape& sample) {  // (n, C, H, W)
  return {n, sample[0], sample[1], sample[2]};
}

// Returns the samples begin <= i < end of a batch, as a view.
Batch slice(const Batch& batch, int64_t begin, int64_t end);

// Buffers for whole batches, each reused once no other tensor shares it.
class BatchBuffers {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  // For batches of up to shape x, (B, C, H, W), in that dtype and memory format, allocated by
  // `make`. Images with fewer channels use x's strides, so each has room for all channels of x.
  BatchBuffers(const Shape& x, DType dtype, const MemoryFormat& format, Make make)
      : x_(x), dtype_(dtype), format_(format), make_(std::move(make)) {}

  // Makes free() return `place` for batches of its shape, whoever else references it.
  void prefer(const Batch& place) { place_ = place; }

  // Returns a batch of shape x in a buffer that only this list references: the trainer and its
  // graph have released it. Allocates one if there is none. Contents are undefined.
  Batch free(const Shape& x) {
    CHECK(x[0] <= x_[0], "a batch of ", x[0], " in a buffer for ", x_[0]);
    if (place_.x.defined() && place_.x.shape() == x) return place_;
    const auto found = std::ranges::find_if(buffers_, is_free);
    const Batch& buffer = found == buffers_.end() ? add() : *found;
    Shape room = x;
    room[1] = x_[1];
    return {buffer.x.view(x, strides_of(room, format_), 0), buffer.y.view({x[0]}, {1}, 0)};
  }

 private:
  Batch& add() {
    buffers_.push_back({make_(x_, dtype_), make_(Shape{x_[0]}, DType::i64)});
    return buffers_.back();
  }
  static bool is_free(const Batch& buffer) {
    return buffer.x.storage()->references() == 1 && buffer.y.storage()->references() == 1;
  }

  Shape x_;
  DType dtype_;
  MemoryFormat format_;
  Make make_;
  std::vector<Batch> buffers_;
  Batch place_;
};

}  // namespace bellows
