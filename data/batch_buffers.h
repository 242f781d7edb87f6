// Buffers for whole batches, each used again once the last tensor that shares it is gone.
#pragma once
#include <functional>
#include "data/batch.h"

namespace bellows {

class BatchBuffers {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  // For batches of that shape, (B, C, H, W), and type, in memory that `make` gets.
  BatchBuffers(const Shape& x, DType dtype, Make make)
      : x_(x), dtype_(dtype), make_(std::move(make)) {}

  // One that nobody holds but this list: the trainer and its graph have let go.
  Batch& free() {
    for (Batch& buffer : buffers_)
      if (is_free(buffer)) return buffer;
    buffers_.push_back({make_(x_, dtype_), make_(Shape{x_[0]}, DType::i64)});
    return buffers_.back();
  }

 private:
  static bool is_free(const Batch& buffer) {
    return buffer.x.storage()->references() == 1 && buffer.y.storage()->references() == 1;
  }

  Shape x_;
  DType dtype_;
  Make make_;
  std::vector<Batch> buffers_;
};

}  // namespace bellows
