#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "eval_no_grad",
    .aliases = {"torch.no_grad", "inference_mode"},
    .idea = "Evaluation records no graph, so every activation is freed as soon as it is used.",
    .claim = "graph nodes and saved bytes of an evaluation are 0; no figure in the seeds",
    .cost = "never",
    .sources = "S4:118",
    .footprint = "eval.untracked_ops",
    .same = bellows::Same::bitwise,
    .proof = [](bellows::Plan& plan) { plan.eval.every = 1; },
    .example = "configs/lenet.yaml --measure epoch",
    .enable = [](bellows::Plan& plan, const std::string&) { plan.eval.no_grad = true; },
});
