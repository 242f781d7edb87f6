#include "plan/toggle.h"

static const bellows::AddToggle async_checkpoint({
    .aliases = {"async_save"},
    .elsewhere = "PyTorch: torch.distributed.checkpoint.async_save; Paddle: paddle.async_save",
    .what = "writes checkpoints beside the training",
    .idea = "The state is copied in memory; a thread writes the copy while training continues.",
    .claim = "training stands still for the copy only, not for the write",
    .cost = "memory for a second copy of the state",
    .sources = "S0:15",
    .code = "core/tensor/safetensors.cpp: write_safetensors_async",
    .footprint = "ckpt.async_saves",
    .same = bellows::Same::bitwise,
    .proof = "ckpt.every_iters: 2",
    .measure = "configs/gallery/saves.yaml --measure epoch",
    .no_gain = "configs/lenet.yaml --measure epoch",
    .enable = [](bellows::Plan& plan) { plan.ckpt.async = true; },
});
