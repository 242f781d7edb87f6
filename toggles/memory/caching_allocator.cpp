#include "plan/toggle.h"

static const bellows::AddToggle caching_allocator({
    .aliases = {"PYTORCH_CUDA_ALLOC_CONF", "auto_growth", "FLAGS_allocator_strategy", "jemalloc"},
    .elsewhere = "PyTorch: CUDACachingAllocator; Paddle: FLAGS_allocator_strategy=auto_growth",
    .what = "reuses freed blocks of memory",
    .idea = "Keeps freed blocks and reuses them without a system call: on the CPU by size, on a "
            "GPU by stream, split and merged. cudaFree would wait for the whole device.",
    .claim = "no system allocations after the first steps",
    .cost = "memory cached for one size is not available to others; on a GPU it may fragment "
            "(preallocate helps)",
    .sources = "S4:130",
    .code = "core/device/allocator.cpp: from_cache",
    .footprint = "alloc.cache_hits",
    .same = bellows::Same::bitwise,
    .measure = "configs/plain/lenet.yaml",
    .gains = "alloc.system_calls",
    .enable = [](bellows::Plan& plan) { plan.allocator.caching = true; },
});
