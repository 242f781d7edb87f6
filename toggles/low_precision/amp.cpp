#include "plan/toggle.h"

static const bellows::AddToggle amp({
    .aliases = {"autocast", "torch.amp", "paddle.amp", "mixed_precision", "use_amp", "fp16",
                "bf16"},
    .elsewhere = "PyTorch: torch.autocast, GradScaler; Paddle: paddle.amp.auto_cast, GradScaler",
    .what = "computes products in 16 bits",
    .idea = "Products (conv2d, linear, matmul) in 16 bits, sums and losses in 32; weights stay in "
            "32. fp16 scales the loss so that small gradients do not underflow (GradScaler).",
    .claim = "S1, on a V100: products 5.02x faster in fp16 if sizes are multiples of 8; half the "
             "memory for activations",
    .cost =
        "fp16 is slower on CPUs: without AVX512-FP16 it is emulated, and with it oneDNN 3.2 has "
        "no fast weight gradients; slower on small models, whose casts cost more "
        "than they save; convolutions that batch_lanes fuses stay in f32",
    .sources = "S1:37 S1:55 S1:56",
    .code = "autograd/amp.h: low",
    .footprint = "amp.low_ops",
    .same = bellows::Same::close,
    .tolerance = 0.05,
    .values = {"off", "bf16", "fp16"},
    .default_value = "off",
    .fast = "bf16",
    .needs = {"bf16=bf16"},
    .measure = "configs/gallery/resnet.yaml model.width=16",
    .gains = "memory",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          using Precision = bellows::AmpOptions::Precision;
          plan.amp.dtype = value == "fp16" ? Precision::fp16 : Precision::bf16;
        },
});
