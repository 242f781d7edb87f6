#include "plan/toggle.h"

static const bellows::AddToggle fused_bias_act({
    .aliases = {"fused_gemm_epilogue", "linear_relu", "EPILOGUE_RELU_BIAS"},
    .elsewhere = "PyTorch: torch._addmm_activation; Paddle: fused_linear_activation",
    .what = "adds bias and ReLU inside the product",
    .idea = "The matrix product of a linear layer applies bias and ReLU while its result is in "
            "registers.",
    .claim = "saves two passes over the layer's output; all fusions of the sources: 6 %",
    .cost = "none known; idle in models without linear + relu",
    .sources = "S1:38",
    .code = "ops/matmul/linear.cpp: linear_relu",
    .footprint = "fuse.bias_act",
    .same = bellows::Same::close,
    .measure = "configs/gallery/wide_layers.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.model.rewrites.values["fuse.bias_act"] = 1; },
});
