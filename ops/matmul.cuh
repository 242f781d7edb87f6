// The product behind kernels::matmul and kernels::linear on the GPU.
#pragma once
#include "ops/matmul.h"

namespace bellows {

// y (B, M, N) = a (B, M, K) b (B, K, N), plus bias (N) unless it is undefined, plus y for
// Into::add. Any strides but those of y, whose rows are dense.
void matmul_cuda(const Tensor& y, const Tensor& a, const Tensor& b, const Tensor& bias, Into into,
                 bool relu = false);

}  // namespace bellows
