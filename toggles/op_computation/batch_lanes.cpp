#include "plan/toggle.h"

static const bellows::AddToggle batch_lanes({
    .aliases = {"CHWN", "conv_act_pool"},
    .elsewhere = "PyTorch: none; Paddle: none",
    .what = "conv, ReLU and pool over lanes of samples",
    .idea = "Convolution, ReLU and 2x2 max pooling in one kernel, which writes no intermediate. On "
            "a CPU the vector lanes hold samples of the batch (memory format CHWN), so channels "
            "need no padding; if the batch would leave more lanes empty, they hold channels.",
    .claim =
        "LeNet's first block on one CPU core: 878 -> 85 us against oneDNN (an earlier measurement)",
    .cost = "slower on wide models, where blocked layouts fill the lanes anyway; under amp these "
            "convolutions stay in f32; on a GPU its CUDA kernels, which have not been timed, "
            "replace cuDNN's",
    .sources = "S1:38",
    .code = "ops/conv/conv_act_pool_forward.cpp: run_samples",
    .footprint = "fuse.conv_act_pool",
    .same = bellows::Same::close,
    .measure = "configs/plain/lenet.yaml",
    .no_gain = "configs/gallery/wide_pools.yaml",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.conv_act_pool"] = 1; },
});
