// Images followed by zeros in the channel dimension. A kernel that needs more channels than the
// image has finds zeros in place, so the image is not copied into a wider tensor.
//
//   const Tensor room = channel_room({n, 8, h, w}, DType::bf16, device);
//   const Tensor x = room.view({n, 3, h, w}, room.strides(), 0);  // for the caller to write
//   whole_room(x, 8)                                              // room again
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Returns zeros, (N, C, H, W) in NHWC. Write only the same first channels each time.
Tensor channel_room(const Shape& shape, DType dtype, Device device);
// Returns the (N, `channels`, H, W) tensor that `x` begins, if `x` is the first channels of such a
// room; else an undefined tensor.
Tensor whole_room(const Tensor& x, int64_t channels);

}  // namespace bellows
