#include "plan/toggle.h"

static const bellows::AddToggle no_sync({
    .aliases = {"skip_gradient_synchronization", "require_backward_grad_sync"},
    .elsewhere = "PyTorch: DistributedDataParallel.no_sync(); Paddle: DataParallel.no_sync()",
    .what = "sends gradients once per update",
    .idea = "Under gradient_accumulation only the last micro-batch of an update sends gradients: "
            "the sums of all.",
    .claim = "collectives per update fall to 1 / N for N micro-batches; no figure in the sources",
    .cost = "only the last of N backward passes hides communication; idle without "
            "gradient_accumulation",
    .code = "dist/reducer.cpp: Reducer::no_sync",
    .footprint = "dist.skipped_allreduces",
    .same = bellows::Same::close,
    .needs = {"ranks", "ddp"},
    .proof = "train.accumulate: 2",
    .measure = "configs/ddp/lenet.yaml toggles.gradient_accumulation=4",
    .no_gain = "configs/gallery/resnet_ddp.yaml toggles.gradient_accumulation=2",
    .enable = [](bellows::Plan& plan) { plan.dist.no_sync = true; },
});
