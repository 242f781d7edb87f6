#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "vendor_kernels",
    .aliases = {"mkldnn", "onednn", "mkl", "cudnn", "use_mkldnn"},
    .idea = "oneDNN, cuDNN and cuBLAS compute convolutions and products, instead of plain loops "
            "and Eigen.",
    .claim = "about 1.9x a core for f32 products against Eigen built for AVX2; MKL several times "
             "OpenBLAS for some matrices (seed S0)",
    .cost = "tiny shapes, where preparing the call costs more than the work",
    .sources = "S0:17,18 S1:39",
    .footprint = "kernel.vendor_calls",
    .same = bellows::Same::close,
    .tolerance = 1e-5,
    .enable = [](bellows::Plan& plan, const std::string&) { plan.kernels.vendor = true; },
});
