#include "plan/toggle.h"

static const bellows::AddToggle fused_add_act({
    .aliases = {"fuse_elewise_add_act_ops", "add_relu"},
    .elsewhere = "PyTorch: torch.compile; Paddle: BuildStrategy.fuse_elewise_add_act_ops",
    .what = "adds and applies ReLU in one pass",
    .idea = "Computes the sum at the end of a residual block and its ReLU in one pass; the sum is "
            "never written.",
    .claim = "saves two of five passes over the block's output; all fusions of the sources: 6 %",
    .cost = "none known; idle where fused_bn_add_act fuses the sum already",
    .sources = "S1:38 S1:54",
    .code = "ops/elementwise.cpp: add_relu",
    .footprint = "fuse.add_act",
    .same = bellows::Same::bitwise,
    .proof = bellows::kResidualNet,
    .measure = "configs/gallery/residual_sums.yaml data.batch_size=8",
    .no_gain = "configs/gallery/resnet.yaml toggles.fused_bn_add_act=off",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.add_act"] = 1; },
});
