#include "plan/toggle.h"

static const bellows::AddToggle eval_no_grad({
    .aliases = {"torch.no_grad", "inference_mode"},
    .elsewhere = "PyTorch: torch.no_grad(); Paddle: paddle.no_grad()",
    .what = "records no graph in evaluation",
    .idea = "Evaluation records no graph, so each activation is freed after its last use.",
    .claim = "an evaluation records no graph nodes and saves no bytes; no figure in the sources",
    .cost = "none",
    .sources = "S4:118",
    .code = "trainer/session/evaluate.cpp: evaluate",
    .footprint = "eval.untracked_ops",
    .same = bellows::Same::bitwise,
    .proof = "eval.every: 1",
    .measure = "configs/lenet.yaml --measure epoch data.train_size=640 data.test_size=6400",
    .gains = "mem.saved_bytes",
    .enable = [](bellows::Plan& plan) { plan.eval.no_grad = true; },
});
