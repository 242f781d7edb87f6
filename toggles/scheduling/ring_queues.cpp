#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "ring_queues",
    .aliases = {"lock_free_queue", "spsc"},
    .idea = "A ring for each worker and a merge in order, instead of one queue that all lock.",
    .claim = "no contended lock between workers and the step; no figure in the seeds",
    .cost = "nothing to win with one worker, or when loading is slow",
    .sources = "S1:33,34,81",
    .footprint = "data.ring_pops",
    .same = bellows::Same::bitwise,
    .needs = {"num_workers"},
    .proof = [](bellows::Plan& plan) { plan.data.loader.workers.num_workers = 2; },
    .enable =
        [](bellows::Plan& plan, const std::string&) {
          plan.data.loader.workers.queue = bellows::QueueKind::rings;
        },
});
