// Batch and Update: the samples of one training step, whole or split into micro-batches.
// BatchBuffers: reusable memory in which batches are made.
#pragma once
#include <algorithm>
#include <exception>
#include <functional>
#include "core/tensor/tensor.h"

namespace bellows {

// Counts of a whole batch and of its round over all ranks, known on the host.
struct BatchCounts {
  int64_t targets = 0;  // targets of this batch that count in the loss
  int64_t units = 0;    // units of all ranks, as `ips` counts them
  int64_t fewest = 0;   // samples of the rank that has the fewest
  double weight = 1;    // weight of this rank's mean in the mean over the ranks
  double divisor = 0;   // value of Batch::divisor; 0: none
  // If lengths vary: positions of this batch, those that are padding, and the largest sum of
  // lengths of a rank over the smallest.
  int64_t positions = 0, padding = 0;
  double imbalance = 1;
};

// A handle. The loader reuses the buffer once no tensor shares it any more.
struct Batch {
  // Images: (B, C, H, W), NCHW or NHWC. The loader makes f32, or u8 under device_augment, which a
  // device converts to the dtype that the model reads. Other samples: (B, ...) in the data set's
  // dtype; zeros pad varying lengths to the longest one.
  Tensor x;
  Tensor y;  // (B, ...): classes as i64, or values as f32; classes are padded with -1
  // Undefined unless targets are left out or lengths vary. lengths: (B) i64. divisor: f32 (),
  // divides the sum of losses: targets that count on all ranks / number of ranks.
  Tensor lengths = {}, divisor = {};
  bool last = true;     // last micro-batch of its update
  double share = 1;     // weight of its loss: `fraction`, or 1 with a divisor
  double fraction = 1;  // share of the update's samples

  BatchCounts counts = {};
  int64_t size() const { return x.dim(0); }

  static constexpr Tensor Batch::*kTensors[] = {&Batch::x, &Batch::y, &Batch::lengths,
                                                &Batch::divisor};
  // Calls fn with each tensor that is defined.
  template <class Fn> void each(const Fn& fn) const {
    for (const auto tensor : kTensors)
      if ((this->*tensor).defined()) fn(this->*tensor);
  }
};

// Result of a worker: a batch or an error.
struct BatchResult {
  Batch batch;
  std::exception_ptr error;  // null if there is a batch
};

// The samples of one update, split into min(parts, samples) micro-batches whose sizes differ by at
// most one. They are views of the whole batch, whose weight multiplies their shares.
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
  Shape shape{n};
  for (const int64_t dim : sample) shape.push_back(dim);
  return shape;
}

// Shapes and types of batches.
struct BatchForm {
  int64_t rows = 0;  // samples
  Shape x, y;
  DType x_dtype = DType::f32, y_dtype = DType::i64;
  MemoryFormat format = kNCHW;  // memory format of x
  bool lengths = false, divisor = false;
};

// Returns the samples begin <= i < end of a batch, as a view.
Batch slice(const Batch& batch, int64_t begin, int64_t end);

// Buffers for whole batches, each reused once no other tensor shares it.
class BatchBuffers {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  // For batches of at most as many elements as `most` has; `make` allocates them.
  BatchBuffers(const BatchForm& most, Make make) : most_(most), make_(std::move(make)) {}

  // Makes free() return `place` for batches of its shape, even if others reference it.
  void prefer(const Batch& place) { place_ = place; }

  // Returns a batch of these shapes in a buffer that only this list references: the trainer and its
  // graph have released it. Allocates one if there is none. Contents are undefined.
  Batch free(const Shape& x, const Shape& y);
  Batch free(const Shape& x) { return free(x, {x[0]}); }  // with one class per sample

 private:
  Batch& add();
  static bool is_free(const Batch& buffer);

  BatchForm most_;
  Make make_;
  std::vector<Batch> buffers_;
  Batch place_;
};

}  // namespace bellows
