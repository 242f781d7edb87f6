#include "plan/toggle.h"

static const bellows::AddToggle pad_channels({
    .aliases = {"pad_to_multiple_of", "channel_padding", "pad_vocab_size_to_multiple_of"},
    .elsewhere = "PyTorch: none, sizes are chosen by the user; Paddle: none",
    .what = "pads channels to multiples of 8",
    .idea = "Convolutions and linear layers in 16 bits or TF32 compute with channels and features "
            "padded with zeros to multiples of 8, because Tensor Cores want rows of 16 bytes. "
            "Weights, checkpoints and results keep their shapes.",
    .claim = "S1, on a V100: K = 1504 instead of 1500 lifts the speedup of a product from 1.05x to "
             "5.02x; N = 9999 reaches 1.01x. MLPerf pads stems of 3 channels.",
    .cost = "copies the tensors that it pads in each step; slower on CPUs, whose kernels mask the "
            "rest of a row. Idle in f32, and if all sizes are multiples of 8",
    .sources = "S1:57,58,61,62 S4:135",
    .code = "ops/matmul/padded.h: forward",
    .footprint = "pad.channels",
    .same = bellows::Same::close,
    .tolerance = 0.02,
    .default_value = "off",
    .fast = "",
    .proof = bellows::cat(bellows::kResidualNet, "amp.dtype: fp16"),
    .measure = "configs/gallery/resnet.yaml toggles.amp=fp16",
    .no_gain = "configs/lenet.yaml toggles.amp=fp16",
    .enable = [](bellows::Plan& plan) { plan.kernels.pad_channels = true; },
});
