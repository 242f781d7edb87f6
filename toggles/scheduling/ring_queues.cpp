#include "plan/toggle.h"

static const bellows::AddToggle ring_queues({
    .aliases = {"lock_free_queue", "spsc"},
    .idea = "One ring per worker, merged in order, instead of one queue with a lock.",
    .claim = "no contended lock between workers and the step; no figure in the seeds",
    .cost = "no gain with one worker or slow loading",
    .sources = "S1:33,34,81",
    .footprint = "data.ring_pops",
    .same = bellows::Same::bitwise,
    .needs = {"num_workers"},
    .proof = "data.num_workers: 2",
    .enable =
        [](bellows::Plan& plan) { plan.data.loader.workers.queue = bellows::QueueKind::rings; },
});
