// The training feed of dp: rank 0 reads the batches of all ranks and sends each rank its own.
#pragma once
#include "data/feeds/device_feed.h"
#include "dist/groups/process_group.h"

namespace bellows {

// `feeds`: on rank 0 the feeds of all ranks, by rank; empty elsewhere. `loader`: this rank's
// loader. Only rank 0 reads from its loader; other ranks only use its number of batches. All must
// outlive the result. Counter: dist.root_bytes. Throws as feeds and the group do.
std::unique_ptr<Feed> scattered_feed(ProcessGroup& group, const Loader& loader,
                                     std::vector<Feed*> feeds, BatchBuffers buffers);

}  // namespace bellows
