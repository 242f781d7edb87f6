// Buffers for whole batches, each used again once the last tensor that shares it is gone.
#pragma once
#include <algorithm>
#include <functional>
#include "data/loader/batch.h"

namespace bellows {

class BatchBuffers {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  // For batches of up to that shape, (B, C, H, W), of that type and format, in memory that `make`
  // gets. Pictures of fewer channels lie in room for that many.
  BatchBuffers(const Shape& x, DType dtype, const MemoryFormat& format, Make make)
      : x_(x), dtype_(dtype), format_(format), make_(std::move(make)) {}

  // A batch of shape x in one that nobody holds but this list: the trainer and its graph have let
  // go. Its numbers are whatever was there.
  Batch free(const Shape& x) {
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
};

}  // namespace bellows
