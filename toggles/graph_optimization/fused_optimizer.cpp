#include "plan/toggle.h"

static const bellows::AddToggle fused_optimizer({
    .aliases = {"fused", "foreach", "multi_tensor_apply", "use_multi_tensor", "fuse_adamw"},
    .elsewhere = "PyTorch: AdamW(fused=True); Paddle: Adam(use_multi_tensor=True)",
    .what = "updates all parameters in one pass",
    .idea = "One pass updates every parameter, weight decay inside, instead of several passes for "
            "each tensor. Under amp it writes the 16-bit copies of weights too, which the next "
            "forward would have to cast, and with set_to_none it reads 16-bit gradients.",
    .claim =
        "optimizer passes per step fall from 3 per parameter (4 with weight decay) to 1 in all (2 "
        "with clipping); under amp, casts of weights (amp.weight_casts) fall to 0, and each "
        "product saves the cast of a gradient",
    .cost = "hardly helps a model of few large tensors, where bandwidth is the limit",
    .sources = "S1:83",
    .code = "optim/optimizer.cpp: Optimizer::step",
    .footprint = "optim.fused_launches",
    .same = bellows::Same::bitwise,
    .measure = "configs/gallery/small_layers.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.optimizer.fused = true; },
});
