#include "core/tensor/channel_room.h"
#include "core/device/allocator.h"
#include "core/tensor/foreach.h"

namespace bellows {

// Marks the storage of a channel_room().
static void release_room(Device device, void* memory, size_t bytes) noexcept {
  release(device, memory, bytes);
}

Tensor channel_room(const Shape& shape, DType dtype, Device device) {
  const size_t bytes = shape.numel() * size_of(dtype);
  const Ref storage(new Storage(allocate(device, bytes), bytes, device, release_room));
  const Tensor room = Tensor(storage, shape, dtype).view(shape, strides_of(shape, kNHWC), 0);
  fill(room, 0);
  return room;
}

Tensor whole_room(const Tensor& x, int64_t channels) {
  if (x.rank() != 4 || !x.storage()->is_from(release_room)) return {};
  Shape shape = x.shape();
  shape[1] = channels;
  const bool fits = x.strides() == strides_of(shape, kNHWC) && x.offset() % channels == 0;
  return fits ? x.view(shape, x.strides(), x.offset()) : Tensor();
}

}  // namespace bellows
