#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "pin_memory",
    .aliases = {"page_locked", "use_pinned_memory"},
    .idea = "Batches are made in a few page-locked buffers, straight by the workers, and the GPU "
            "fetches them from there; pageable memory the driver has to copy to its own first.",
    .claim = "a shorter way from host to device (seed S2); little effect (seed S3)",
    .cost = "page-locked memory is lost to the rest of the machine, and slow to get",
    .sources = "S2:89 S3:109 S4:117",
    .footprint = "data.pinned_copy",
    .same = bellows::Same::bitwise,
    .needs = {"cuda"},
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.data.loader.batch.pin_memory = true; },
});
