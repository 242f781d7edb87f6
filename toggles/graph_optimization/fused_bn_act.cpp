#include "plan/toggle.h"

static const bellows::AddToggle fused_bn_act({
    .aliases = {"BatchNormAddRelu", "fuse_bn_act_ops", "FLAGS_fuse_bn_act", "BNReLU"},
    .elsewhere = "PyTorch: torch.compile; Paddle: BuildStrategy.fuse_bn_act_ops",
    .what = "batch norm and ReLU in one pass",
    .idea = "Batch normalization and ReLU in one pass: the normalized values are never written, "
            "and backward reads one bit per element instead of y.",
    .claim = "ResNet-50 moves 341 instead of 470 MB per image in bf16, together with "
             "fused_bn_add_act; all fusions of the sources: 6 %",
    .cost = "none known; idle in models without batch_norm + relu",
    .sources = "S1:38 S1:54",
    .code = "ops/norm/batch_norm.cpp: batch_norm_relu",
    .footprint = "fuse.norm_act",
    .same = bellows::Same::close,
    .proof = bellows::kResidualNet,
    .measure = "configs/gallery/norms.yaml",
    .no_gain = "configs/gallery/resnet.yaml",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.bn_act"] = 1; },
});
