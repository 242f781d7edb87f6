#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "preallocate",
    .aliases = {"warm_up_allocator", "reserve_memory"},
    .idea = "One forward and backward over the largest batch before the first step, without an "
            "update, so the allocator holds all blocks that training will ask for.",
    .claim = "no allocation from the system after the start, with inputs of any size; on a GPU the "
             "largest blocks come first, so smaller ones do not leave it in pieces",
    .cost = "one step of time at the start",
    .sources = "S4:136",
    .footprint = "alloc.dry_runs",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .needs = {"caching_allocator"},
    .proof = [](bellows::Plan& plan) { plan.allocator.caching = true; },
    .enable = [](bellows::Plan& plan, const std::string&) { plan.train.dry_run = true; },
});
