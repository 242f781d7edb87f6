// The ways of a loader's batches to a device, one a file. Their buffers there are used again and
// again; where nobody holds a batch for longer than its step, two are enough.
#pragma once
#include <string>
#include "data/loader/loader.h"

namespace bellows {

// How a model wants the pictures that a device makes: of that type and, in NHWC, with zeros behind
// their channels, so that there are so many (core/tensor/channel_room.h); 0: none.
struct ModelInput {
  DType dtype = DType::f32;
  int64_t channels = 0;
};

// One that the loader's options ask for; null where the loader itself is the feed: on the CPU, if
// it makes numbers. What stands in the way of an option is told in the notes. The loader outlives
// it.
std::unique_ptr<Feed> make_feed(Device device, Loader& loader, std::vector<std::string>& notes,
                                const ModelInput& input = {});

// Each batch is copied on the compute stream when it is asked for, and the host waits.
std::unique_ptr<Feed> blocking_feed(Device device, Loader& loader);
// The next batch is copied on the copy stream while this one is computed with; the streams wait for
// each other, the host for neither. Counted, where the memory is pinned: copy.async, and
// copy.overlapped for those that were on their way before they were asked for.
std::unique_ptr<Feed> async_feed(Device device, Loader& loader);
// The samples lie on the device from the start, and a batch is gathered there: no copies. Counted:
// tensor.device_created.
std::unique_ptr<Feed> resident_feed(Device device, Loader& loader, const ModelInput& input);
std::string why_not_resident(Device device, const Loader& loader);  // "" if it can be
// Batches of bytes, which `bytes` takes to the device if it is not null, become there what the
// transforms ask for. Counted: augment.device_images.
std::unique_ptr<Feed> augmenting_feed(Device device, Loader& loader, std::unique_ptr<Feed> bytes,
                                      const ModelInput& input);

// On the current stream. Counted: tensor.created_then_moved, and data.pinned_copy or, where the
// driver has to copy it to memory of its own first, data.staging_copies.
void copy_batch(const Batch& to, const Batch& from);

// Batches on the device, as that loader makes them or, of zeros at first, as the model gets them.
BatchBuffers buffers_on(Device device, const Loader& loader);
BatchBuffers model_buffers_on(Device device, const Loader& loader, const ModelInput& input);

}  // namespace bellows
