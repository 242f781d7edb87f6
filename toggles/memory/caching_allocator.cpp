#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "caching_allocator",
    .aliases = {"PYTORCH_CUDA_ALLOC_CONF", "auto_growth", "FLAGS_allocator_strategy", "jemalloc"},
    .idea = "Freed blocks are kept and handed out again without asking the system: on the CPU by "
            "size, on a GPU by stream, split and merged, where cudaFree would stop everything.",
    .claim = "system allocations per step fall to 0 after the first steps",
    .cost = "memory that one size has used is not there for another; on a GPU it may come to lie "
            "in pieces (preallocate helps)",
    .sources = "S4:130",
    .footprint = "alloc.cache_hits",
    .same = bellows::Same::bitwise,
    .enable = [](bellows::Plan& plan, const std::string&) { plan.allocator.caching = true; },
});
