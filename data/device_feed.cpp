#include "data/device_feed.h"
#include <algorithm>
#include "core/copy.h"
#include "core/pinned.h"
#include "core/trace.h"

namespace bellows {

std::unique_ptr<Feed> make_feed(Device device, Loader& loader, std::vector<std::string>& notes) {
  const LoaderOptions& options = loader.options();
  if (device != Device::cpu && options.device_tensors) {
    const std::string why_not = why_not_resident(device, loader);
    if (why_not.empty()) return resident_feed(device, loader);
    const std::string note = "device_tensors: not here, " + why_not;
    if (!std::ranges::count(notes, note)) notes.push_back(note);  // of the other split
  }
  std::unique_ptr<Feed> feed;
  if (device != Device::cpu)
    feed = options.non_blocking ? async_feed(device, loader) : blocking_feed(device, loader);
  return options.device_augment ? augmenting_feed(device, loader, std::move(feed))
                                : std::move(feed);
}

void copy_batch(const Batch& to, const Batch& from) {
  static trace::Counter& moved = trace::counter("tensor.created_then_moved");
  static trace::Counter& pinned = trace::counter("data.pinned_copy");
  static trace::Counter& staged = trace::counter("data.staging_copies");
  copy_into(to.x, from.x);
  copy_into(to.y, from.y);
  moved.add(2);
  (is_pinned(from.x) ? pinned : staged).add();
}

static BatchBuffers buffers(Device device, const Shape& x, DType dtype,
                            const MemoryFormat& format) {
  return {x, dtype, format,
          [device](const Shape& shape, DType type) { return Tensor(shape, type, device); }};
}
BatchBuffers buffers_on(Device device, const Loader& loader) {
  return buffers(device, loader.batch_shape(), loader.transforms().dtype(), loader.batch_format());
}
BatchBuffers model_buffers_on(Device device, const Loader& loader) {
  return buffers(device, with_rows(loader.options().batch_size, loader.transforms().shape()),
                 DType::f32, loader.options().format());
}

}  // namespace bellows
