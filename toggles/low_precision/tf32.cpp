#include "plan/toggle.h"

static const bellows::AddToggle tf32({
    .aliases = {"allow_tf32", "float32_matmul_precision", "NVIDIA_TF32_OVERRIDE"},
    .elsewhere = "PyTorch: torch.backends.cuda.matmul.allow_tf32; Paddle: NVIDIA_TF32_OVERRIDE",
    .what = "f32 products on Tensor Cores",
    .idea = "Products and convolutions of f32 tensors run on Tensor Cores, which read 10 of the 23 "
            "mantissa bits and accumulate in f32.",
    .claim = "up to 7x for large products: an H200's data sheet states 494 TFLOP/s instead of 67",
    .cost = "a product keeps 3 of 7 digits; no gain if memory or launches are the limit, or if "
            "rows are not multiples of 16 bytes",
    .sources = "S1:60",
    .code = "ops/vendor/cuda_call.h: CudaCall",
    .footprint = "matmul.tf32_calls",
    .same = bellows::Same::close,
    .tolerance = 5e-3,
    .default_value = "off",
    .needs = {"cuda", "vendor_kernels"},
    .measure = "configs/resnet18.yaml model.width=64",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.kernels.tf32 = true; },
});
