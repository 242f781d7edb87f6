// Images followed by zeros in the channel dimension. A kernel that needs more channels than the
// image has finds zeros in place, so the image is not copied into a wider tensor.
//
//   const Tensor room = channel_room({n, 8, h, w}, DType::bf16, device);
//   const Tensor x = room.view({n, 3, h, w}, room.strides(), 0);  // for the caller to write
//   whole_room(x, 8)                                              // room again
#pragma once
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"

namespace bellows {

namespace detail {
// Marks the storage of a channel_room().
inline void release_room(Device device, void* memory, size_t bytes) noexcept {
  release(device, memory, bytes);
}
}  // namespace detail

// Returns zeros, (N, C, H, W) in NHWC. Write only the same first channels each time.
inline Tensor channel_room(const Shape& shape, DType dtype, Device device) {
  const size_t bytes = shape.numel() * size_of(dtype);
  const Ref storage(new Storage(allocate(device, bytes), bytes, device, detail::release_room));
  const Tensor room = Tensor(storage, shape, dtype).view(shape, strides_of(shape, kNHWC), 0);
  fill(room, 0);
  return room;
}
// Returns the (N, `channels`, H, W) tensor that `x` begins, if `x` is the first channels of such a
// room; else an undefined tensor.
inline Tensor whole_room(const Tensor& x, int64_t channels) {
  if (x.rank() != 4 || !x.storage()->is_from(detail::release_room)) return {};
  Shape shape = x.shape();
  shape[1] = channels;
  const bool fits = x.strides() == strides_of(shape, kNHWC) && x.offset() % channels == 0;
  return fits ? x.view(shape, x.strides(), x.offset()) : Tensor();
}

}  // namespace bellows
