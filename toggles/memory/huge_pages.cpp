#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "huge_pages",
    .aliases = {"transparent_hugepage", "MADV_HUGEPAGE", "THP"},
    .idea = "Host tensors from 2 MiB on ask for pages of that size: one entry of the processor's "
            "page table cache and one page fault in place of 512.",
    .claim = "no figure in the seeds",
    .cost = "where memory is short the system has to make room for whole pages first",
    .sources = "no seed",
    .footprint = "alloc.huge_bytes",
    .same = bellows::Same::bitwise,
    .default_value = "off",  // small models have no tensors of 2 MiB
    .needs = {"cpu"},
    .proof =
        [](bellows::Plan& plan) {
          // The first convolution's output, (128, 6, 28, 28) f32, takes 2.3 MiB.
          plan.data.loader.sampler.batch_size = 128;
          plan = bellows::load(plan, {{"data.train_size", {"384"}}});
        },
    .example = "configs/lenet.yaml data.batch_size=512",
    .enable = [](bellows::Plan& plan, const std::string&) { plan.allocator.huge_pages = true; },
});
