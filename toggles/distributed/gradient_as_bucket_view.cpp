#include "plan/toggle.h"

static const bellows::AddToggle gradient_as_bucket_view({
    .aliases = {"grad_as_bucket_view", "contiguous_gradients"},
    .elsewhere = "PyTorch: DistributedDataParallel(gradient_as_bucket_view=True); Paddle: none",
    .what = "writes gradients into the buckets",
    .idea = "Gradients are views into the buckets, and backward writes them there.",
    .claim = "copied gradient bytes (dist.grad_copy_bytes) fall from twice the gradients' size per "
             "update to 0, and memory by their size; no figure in the sources",
    .cost = "the memory of gradients stays allocated between updates, also under set_to_none",
    .code = "autograd/backward.cpp: place_grad",
    .footprint = "dist.view_grads",
    .same = bellows::Same::bitwise,
    .needs = {"ranks", "ddp", "bucketed_allreduce"},
    .measure = "configs/ddp/lenet.yaml",
    .gains = "dist.grad_copy_bytes",
    .enable = [](bellows::Plan& plan) { plan.dist.views = true; },
});
