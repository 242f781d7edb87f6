#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "batch_lanes",
    .aliases = {"CHWN", "conv_act_pool"},
    .idea = "Convolution, activation and pooling in one kernel, with the batch in the vector lanes "
            "(memory format CHWN): no channel padding, and no intermediate is written.",
    .claim = "LeNet's first block in 85 instead of 878 us per core, compared with oneDNN (measured "
             "before)",
    .cost = "slower for wide models, whose blocked layouts fill the lanes already; under amp these "
            "convolutions stay in f32. Its CUDA kernels have not been timed.",
    .sources = "S1:38",
    .footprint = "fuse.conv_act_pool",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.model.rewrites.values["fuse.conv_act_pool"] = 1; },
});
