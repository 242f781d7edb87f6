#include "plan/toggle.h"

static const bellows::AddToggle device_randperm({
    .aliases = {"randperm"},
    .elsewhere = "PyTorch: torch.randperm(n, device=\"cuda\"); Paddle: paddle.randperm(n)",
    .what = "draws the order of an epoch in parallel",
    .idea = "The order of an epoch is a keyed permutation: each element is computed alone and in "
            "parallel, instead of by a serial shuffle on the host.",
    .claim = "1e8 elements: 1 to 2 s in a serial shuffle, almost no time on a GPU (source S3)",
    .cost = "none known; the order differs from that of the shuffle, and is as random",
    .sources = "S3:100",
    .code = "core/tensor/rng.cpp: randperm",
    .footprint = "rng.device_perms",
    .same = bellows::Same::statistical,
    .measure = "configs/lenet.yaml --measure epoch",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.data.loader.sampler.device_randperm = true; },
});
