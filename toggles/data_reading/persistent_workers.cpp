#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "persistent_workers",
    .idea = "Workers live on from epoch to epoch instead of being started again for each.",
    .claim = "the gap between epochs shrinks: 11 s to 7 s with 10 worker processes (seed S3)",
    .cost = "the workers' buffers stay allocated during evaluation",
    .sources = "S1:35 S3:115",
    .footprint = "data.worker_reuses",
    .same = bellows::Same::bitwise,
    .needs = {"num_workers"},
    .proof =
        [](bellows::Plan& plan) {
          plan.data.loader.workers.num_workers = 1;
          plan.train.epochs = 2;
        },
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.data.loader.workers.persistent_workers = true; },
});
