#include "plan/toggle.h"

static const bellows::AddToggle no_sync({
    .aliases = {"skip_gradient_synchronization", "require_backward_grad_sync"},
    .idea = "Under gradient_accumulation only the last micro-batch of an update sends gradients: "
            "the sums of all.",
    .claim = "collectives per update fall to 1 / N for N micro-batches; no figure in the seeds",
    .cost = "only the last of N backward passes hides communication; idle without "
            "gradient_accumulation",
    .footprint = "dist.skipped_allreduces",
    .same = bellows::Same::close,
    .needs = {"ranks", "ddp"},
    .proof = "train.accumulate: 2",
    .example = "configs/ddp/lenet.yaml toggles.gradient_accumulation=2",
    .enable = [](bellows::Plan& plan) { plan.dist.no_sync = true; },
});
