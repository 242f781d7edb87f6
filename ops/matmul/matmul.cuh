// The product behind kernels::matmul and kernels::linear on the GPU.
#pragma once
#include "ops/matmul/matmul.h"

namespace bellows {

// What is done to each element of a product before it is written: y + bias (N), then relu.
struct Epilogue {
  Tensor bias = {};
  bool relu = false;
};

// y (B, M, N) = a (B, M, K) b (B, K, N), or the same added to y. Any strides but those of y, whose
// rows are dense.
void matmul_cuda(const Tensor& y, const Tensor& a, const Tensor& b, Into into,
                 const Epilogue& epilogue = {});

}  // namespace bellows
