#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "fused_bias_act",
    .aliases = {"fused_gemm_epilogue", "linear_relu", "EPILOGUE_RELU_BIAS"},
    .idea = "A linear layer's bias and ReLU are applied by the matrix product while its result is "
            "still in registers.",
    .claim = "two passes over the layer's output less; all fusions of the seeds: 6 %",
    .cost = "never; idle in nets without linear + relu",
    .sources = "S1:38",
    .footprint = "fuse.bias_act",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.model.rewrites.values["fuse.bias_act"] = 1; },
});
