// Matrix product behind kernels::matmul and kernels::linear on the GPU (core/tensor/gemm.cuh).
#pragma once
#include "ops/matmul/matmul.h"

namespace bellows {

// Operations on each element of a product before it is written: adds bias (N), then relu.
struct Epilogue {
  Tensor bias = {};
  bool relu = false;
};

// y (B, M, N) = a (B, M, K) b (B, K, N), or y += a b. Any strides, except that rows of y are
// contiguous.
void matmul_cuda(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                 const Epilogue& epilogue = {});

}  // namespace bellows
