// Buffers for whole batches, each used again once the last tensor that shares it is gone.
#pragma once
#include <functional>
#include "data/batch.h"

namespace bellows {

class BatchBuffers {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  // For batches of that shape, (B, C, H, W), type and format, in memory that `make` gets.
  BatchBuffers(const Shape& x, DType dtype, const MemoryFormat& format, Make make)
      : x_(x), dtype_(dtype), format_(format), make_(std::move(make)) {}

  // One that nobody holds but this list: the trainer and its graph have let go.
  Batch& free() {
    for (Batch& buffer : buffers_)
      if (is_free(buffer)) return buffer;
    const Tensor x = make_(x_, dtype_).view(x_, strides_of(x_, format_), 0);
    buffers_.push_back({x, make_(Shape{x_[0]}, DType::i64)});
    return buffers_.back();
  }

 private:
  static bool is_free(const Batch& buffer) {
    return buffer.x.storage()->references() == 1 && buffer.y.storage()->references() == 1;
  }

  Shape x_;
  DType dtype_;
  MemoryFormat format_;
  Make make_;
  std::vector<Batch> buffers_;
};

}  // namespace bellows
