#include "plan/toggle.h"

static const bellows::AddToggle huge_pages({
    .aliases = {"transparent_hugepage", "MADV_HUGEPAGE", "THP"},
    .idea = "Host tensors of 2 MiB or more request huge pages: one TLB entry and one page fault "
            "instead of 512.",
    .claim = "no figure in the seeds",
    .cost = "when memory is short, the system must first free whole pages of 2 MiB",
    .footprint = "alloc.huge_bytes",
    .same = bellows::Same::bitwise,
    .default_value = "off",  // small models have no tensors of 2 MiB
    .needs = {"cpu", "pages of 2 MiB"},
    // The first convolution's output, (128, 6, 28, 28) f32, takes 2.3 MiB.
    .proof = "data: {batch_size: 128, train_size: 384}",
    .example = "configs/lenet.yaml data.batch_size=512",
    .enable = [](bellows::Plan& plan) { plan.allocator.huge_pages = true; },
});
