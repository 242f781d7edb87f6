#include "plan/toggle.h"

static const bellows::AddToggle ring_queues({
    .aliases = {"lock_free_queue", "spsc"},
    .elsewhere = "PyTorch: none, a multiprocessing.Queue; Paddle: none, a BlockingQueue",
    .what = "a queue without a lock for each worker",
    .idea = "One ring per worker, merged in order, instead of one queue with a lock.",
    .claim = "no contended lock between workers and the step; no figure in the sources",
    .cost = "no gain with one worker or slow loading",
    .sources = "S1:33,34,81",
    .code = "data/loader/batch_queue.cpp: pop",
    .footprint = "data.ring_pops",
    .same = bellows::Same::bitwise,
    .needs = {"num_workers"},
    .proof = "data.num_workers: 2",
    .measure = "configs/lessons/hrnet_lock.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable =
        [](bellows::Plan& plan) { plan.data.loader.workers.queue = bellows::QueueKind::rings; },
});
