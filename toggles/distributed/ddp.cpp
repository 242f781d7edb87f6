#include "plan/toggle.h"

static const bellows::AddToggle ddp({
    .aliases = {"DistributedDataParallel", "paddle.DataParallel", "DataParallel", "dp"},
    .elsewhere = "PyTorch: DistributedDataParallel; Paddle: paddle.DataParallel",
    .what = "averages gradients with an all-reduce",
    .idea = "Every rank updates its own copy of the model with the mean of all gradients, which an "
            "all-reduce forms, so all ranks share the traffic. Off is DataParallel (dp): rank 0 "
            "reads the batches of all ranks, sends each its own, collects all gradients, updates "
            "alone, and sends all parameters back. PyTorch's DataParallel runs the devices as "
            "threads of one process, which also take turns at Python's lock (GIL); here dp has a "
            "process for each rank.",
    .claim =
        "bytes through rank 0 per update (dist.root_bytes) fall from (ranks - 1) x (parameters "
        "+ gradients + batch) to 0; \"much better performance and scaling\" (S0:21)",
    .cost = "every rank has the optimizer's state, and computes the update",
    .sources = "S0:21 S4:131,137,139",
    .code = "dist/reducer.cpp: Reducer::wait",
    .footprint = "dist.buckets",
    .same = bellows::Same::close,
    .needs = {"ranks"},
    .measure = "configs/gallery/resnet_ddp.yaml",
    .gains = "dist.root_bytes",
    .enable = [](bellows::Plan& plan) { plan.dist.ddp = true; },
});
