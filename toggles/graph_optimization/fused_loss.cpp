#include "plan/toggle.h"

static const bellows::AddToggle fused_loss({
    .aliases = {"softmax_with_cross_entropy", "fused_cross_entropy"},
    .elsewhere = "PyTorch: CrossEntropyLoss, in two kernels; Paddle: softmax_with_cross_entropy",
    .what = "softmax and cross-entropy in one kernel",
    .idea = "Softmax and cross-entropy in one kernel; backward is another one: softmax - target.",
    .claim = "one op instead of four; no figure in the sources",
    .cost = "none known; a small gain next to a large model",
    .sources = "S1:38",
    .code = "ops/cross_entropy.cpp: cross_entropy",
    .footprint = "fuse.loss",
    .same = bellows::Same::close,
    .measure = "configs/gallery/vocabulary.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.loss.fused = true; },
});
