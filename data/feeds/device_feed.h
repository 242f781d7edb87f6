// Feeds that deliver a loader's batches on a device. Device buffers are reused; two per feed are
// enough if each batch is released after its step.
#pragma once
#include <optional>
#include <string>
#include "data/loader/loader.h"

namespace bellows {

// Returns the feed that the loader's options select. Null if the loader itself is the feed: on the
// CPU, unless device_augment is on. If device_tensors is impossible, adds the reason to `notes`
// and selects another feed. Images that the device makes have this dtype. The loader must outlive
// the feed.
std::unique_ptr<Feed> make_feed(Device device, Loader& loader, std::vector<std::string>& notes,
                                DType images = DType::f32);

// Keeps all samples on the device and gathers each batch there, without copies. Counters:
// tensor.device_created and, with device_augment, augment.device_images.
std::unique_ptr<Feed> resident_feed(Device device, Loader& loader, DType images);
// Returns the reason why resident_feed() is impossible; "" if it is possible.
std::string why_not_resident(Device device, const Loader& loader);
// Runs the transforms that are left to the device on batches of bytes. These come from `bytes`, or
// from the loader if that is null (CPU). Counter: augment.device_images.
std::unique_ptr<Feed> augmenting_feed(Device device, Loader& loader, std::unique_ptr<Feed> bytes,
                                      DType images);

// Copies all tensors, and the counts, on the current stream. Counters: tensor.created_then_moved,
// and data.pinned_copy or data.staging_copies (pageable memory, which the driver stages first).
void copy_batch(Batch& to, const Batch& from);

// Returns buffers for batches on the device: as the loader makes them, or as its device does, with
// this dtype of images and initially zero. `rows`: samples of the largest batch, if not the
// loader's.
BatchBuffers buffers_on(Device device, const Loader& loader);
BatchBuffers model_buffers_on(Device device, const Loader& loader, DType images,
                              std::optional<int64_t> rows = {});

}  // namespace bellows
