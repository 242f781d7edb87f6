#include "plan/toggle.h"

static const bellows::AddToggle eval_no_grad({
    .aliases = {"torch.no_grad", "inference_mode"},
    .idea = "Evaluation records no graph, so each activation is freed after its last use.",
    .claim = "an evaluation records no graph nodes and saves no bytes; no figure in the seeds",
    .cost = "none",
    .sources = "S4:118",
    .footprint = "eval.untracked_ops",
    .same = bellows::Same::bitwise,
    .proof = "eval.every: 1",
    .example = "configs/lenet.yaml --measure epoch",
    .enable = [](bellows::Plan& plan) { plan.eval.no_grad = true; },
});
