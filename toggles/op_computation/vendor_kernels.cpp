#include "plan/toggle.h"

static const bellows::AddToggle vendor_kernels({
    .aliases = {"mkldnn", "onednn", "mkl", "cudnn", "use_mkldnn"},
    .elsewhere = "PyTorch: torch.backends.mkldnn and .cudnn; Paddle: FLAGS_use_mkldnn",
    .what = "kernels of oneDNN, cuDNN and cuBLAS",
    .idea = "oneDNN, cuDNN and cuBLAS compute convolutions and products, instead of plain loops "
            "and Eigen.",
    .claim = "about 1.9x per core for f32 products, compared with Eigen built for AVX2; for some "
             "matrices MKL is several times faster than OpenBLAS (source S0)",
    .cost = "slower for tiny shapes, where preparing the call takes longer than the computation",
    .sources = "S0:17,18 S1:39",
    .code = "ops/vendor/onednn_conv2d.cpp: forward",
    .footprint = "kernel.vendor_calls",
    .same = bellows::Same::close,
    .measure = "configs/plain/lenet.yaml",
    .no_gain = "configs/gallery/small_layers.yaml",
    .enable = [](bellows::Plan& plan) { plan.kernels.vendor = true; },
});
