// BatchBuffers: buffers for whole batches, each reused once no other tensor shares it.
#pragma once
#include <algorithm>
#include <functional>
#include "data/loader/batch.h"

namespace bellows {

class BatchBuffers {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  // For batches of up to shape x, (B, C, H, W), in that dtype and memory format, allocated by
  // `make`. Images with fewer channels use x's strides, so each has room for all channels of x.
  BatchBuffers(const Shape& x, DType dtype, const MemoryFormat& format, Make make)
      : x_(x), dtype_(dtype), format_(format), make_(std::move(make)) {}

  // Returns a batch of shape x in a buffer that only this list references: the trainer and its
  // graph have released it. Allocates one if there is none. Contents are undefined.
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
