#include "plan/toggle.h"

static const bellows::AddToggle fused_bn_add_act({
    .aliases = {"fuse_bn_add_act_ops", "bn_addrelu", "BNAddReLU"},
    .elsewhere = "PyTorch: bn_addrelu of Apex; Paddle: BuildStrategy.fuse_bn_add_act_ops",
    .what = "batch norm, sum and ReLU in one pass",
    .idea = "The end of a residual block in one pass: batch normalization, the sum with the "
            "shortcut, and ReLU. Backward reads one bit per element.",
    .claim = "ResNet-50 on one A100: 3,410 images/s in MXNet with it, 2,470 in PyTorch without",
    .cost = "none known; idle in models without residual blocks",
    .sources = "S1:38 S1:54",
    .code = "ops/norm/batch_norm.cpp: batch_norm_relu",
    .footprint = "fuse.norm_add_act",
    .same = bellows::Same::close,
    .supersedes = {"fused_add_act"},
    .proof = bellows::kResidualNet,
    .measure = "configs/gallery/residual_norms.yaml toggles.fused_add_act=off",
    .no_gain = "configs/gallery/resnet.yaml toggles.fused_add_act=off",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.bn_add_act"] = 1; },
});
