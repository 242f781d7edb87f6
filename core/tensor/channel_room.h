// Images with room behind their channels: zeros, so that a kernel which wants more channels than
// there are finds them where they lie, and nobody copies the image into a wider one.
//
//   const Tensor room = channel_room({n, 8, h, w}, DType::bf16, device);
//   const Tensor x = room.view({n, 3, h, w}, room.strides(), 0);  // to be written
//   whole_room(x, 8)                                             // the room again
#pragma once
#include "core/tensor/tensor.h"

namespace bellows {

// Zeros, (N, C, H, W) in NHWC. What is written is the same first channels each time.
Tensor channel_room(const Shape& shape, DType dtype, Device device);
// (N, C, H, W) with so many channels, if x is the first ones of them in such a room; else
// undefined.
Tensor whole_room(const Tensor& x, int64_t channels);

}  // namespace bellows
