#include "plan/toggle.h"

static const bellows::AddToggle overlap_wgrad({
    .aliases = {"side_stream", "wgrad_stream"},
    .idea = "The weight gradient of a convolution runs on a second stream of the GPU, beside the "
            "gradient of its input: both need only dy. The blocks of one fill the multiprocessors "
            "that the last wave of the other leaves idle.",
    .claim =
        "unmeasured here, and no figure in the seeds. Most is expected of small batches, whose "
        "kernels do not fill a GPU, and inside a CUDA graph",
    .cost = "two events per convolution in an eager step; two large kernels share the L2 cache",
    .footprint = "cuda.forks",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .fast = "",  // until a GPU has run it
    .needs = {"cuda"},
    .example = "configs/resnet18.yaml",
    .enable = [](bellows::Plan& plan) { plan.kernels.overlap_wgrad = true; },
});
