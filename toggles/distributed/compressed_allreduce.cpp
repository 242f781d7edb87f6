#include "plan/toggle.h"

static const bellows::AddToggle compressed_allreduce({
    .aliases = {"bf16_compress_hook", "fp16_compress_hook", "fp16_allreduce",
                "communication_data_type"},
    .elsewhere = "PyTorch: bf16_compress_hook; Paddle: DistributedStrategy.fp16_allreduce",
    .what = "sends gradients as bf16",
    .idea = "f32 gradients are rounded to bf16 before they travel and cast back on arrival. The "
            "optimizer's state and the weights stay in f32.",
    .claim = "half the bytes on the wire; no figure in the sources",
    .cost = "two casts, and 16 of 24 bits of each gradient's precision; slower where the link is "
            "not the limit",
    .code = "dist/reducer.cpp: Reducer::send",
    .footprint = "dist.compressed_bytes",
    .same = bellows::Same::close,
    .tolerance = 0.01,
    .default_value = "off",
    .fast = "",  // trades precision for bytes
    .needs = {"ranks", "ddp"},
    .measure = "configs/ddp/lenet.yaml",
    .gains = "dist.bytes",
    .enable = [](bellows::Plan& plan) { plan.dist.compress = true; },
});
