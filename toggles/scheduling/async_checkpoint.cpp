#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "async_checkpoint",
    .aliases = {"async_save"},
    .idea = "The state is copied in memory; a thread writes the copy while training goes on.",
    .claim = "a save costs the time of a copy; bounded by ckpt.max_overhead",
    .cost = "memory for one more copy of the state",
    .sources = "S0:15",
    .footprint = "ckpt.async_saves",
    .same = bellows::Same::bitwise,
    .proof = [](bellows::Plan& plan) { plan.ckpt.every_iters = 2; },
    .enable = [](bellows::Plan& plan, const std::string&) { plan.ckpt.async = true; },
});
