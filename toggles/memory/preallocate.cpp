#include "plan/toggle.h"

static const bellows::AddToggle preallocate({
    .aliases = {"warm_up_allocator", "reserve_memory"},
    .elsewhere = "PyTorch: in its tuning guide; Paddle: FLAGS_fraction_of_gpu_memory_to_use",
    .what = "runs the largest batch before step 1",
    .idea = "Runs one forward and backward pass on the largest batch before the first step, "
            "without an update, so the allocator already holds all blocks that training needs.",
    .claim = "no system allocation after the start, for inputs of any size; on a GPU the largest "
             "blocks are allocated first, which avoids fragmentation",
    .cost = "the time of one step at the start",
    .sources = "S4:136",
    .code = "trainer/session/training_step.cpp: dry_run",
    .footprint = "alloc.dry_runs",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .needs = {"caching_allocator"},
    .measure = "configs/adder.yaml --warmup 1 data.digits=9",
    .no_gain = "configs/lenet.yaml",
    .gains = "alloc.system_calls",
    .enable = [](bellows::Plan& plan) { plan.train.dry_run = true; },
});
