#include "plan/toggle.h"

static const bellows::AddToggle drop_conv_bias({
    .aliases = {"bias=False", "bias_before_bn"},
    .elsewhere = "PyTorch: Conv2d(bias=False); Paddle: Conv2D(bias_attr=False)",
    .what = "leaves out biases before batch norms",
    .idea = "Removes the bias of a convolution followed by a batch normalization: subtracting the "
            "mean cancels it, and its gradient is 0. The running mean starts at minus the bias, so "
            "evaluation does not change either.",
    .claim = "saves an addition in forward and a sum in backward; no figure in the sources",
    .cost = "checkpoints lack these biases; no effect on models built without them",
    .sources = "S4:119",
    .code = "models/layers/conv2d.cpp: Conv2dLayer::drop_bias",
    .footprint = "model.conv_biases_dropped",
    .same = bellows::Same::close,
    .proof = bellows::kResidualNet,
    .measure = "configs/gallery/conv_bias.yaml",
    .no_gain = "configs/gallery/large_kernels.yaml",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["drop_conv_bias"] = 1; },
});
