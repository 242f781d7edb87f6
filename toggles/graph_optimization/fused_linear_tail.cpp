#include "plan/toggle.h"

static const bellows::AddToggle fused_linear_tail({
    .aliases = {"fused_mlp", "FusedMLP", "FullyFusedMLP"},
    .idea =
        "Three small linear layers with ReLU between them, and cross-entropy after them, are one "
        "kernel forward and two backward. Each block takes two rows of the batch through all "
        "layers.",
    .claim = "LeNet at batch 64: 8 launches a step instead of 13; unmeasured here, and no figure "
             "in the seeds",
    .cost = "each block reads all weights, so above 8 M multiplications or 1024 features "
            "the layers run unfused; no Tensor Cores",
    .footprint = "fuse.linear_tail",
    .same = bellows::Same::close,
    .default_value = "off",
    .fast = "",  // until a GPU has run it
    .needs = {"cuda"},
    .supersedes = {"fused_bias_act"},
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.linear_tail"] = 1; },
});
