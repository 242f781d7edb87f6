// Rows of a matrix picked by index: the vectors of tokens.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

// y[..., d] = weight[index[...], d]. index: i64, any shape and strides. weight: (V, D), any float
// dtype. y: (..., D) in the dtype of weight, also under amp. The gradient of weight is dense; its
// summands are added in the order of the index.
//
// Throws (exit 2) if shapes or dtypes do not fit and, on the CPU, (exit 3) on an index outside [0,
// V). A device does not check: such an index picks NaN.
Tensor embedding(const Tensor& index, const Tensor& weight);

namespace kernels {
// index: (N), contiguous. y: (N, D).
inline constinit Kernel<Tensor(const Tensor& index, const Tensor& weight)> embedding{"embedding"};
// Overwrites dw (V, D). dy: (N, D). All are contiguous.
inline constinit Kernel<void(const Tensor& dy, const Tensor& index, const Tensor& dw)>
    embedding_backward{"embedding_backward"};
}  // namespace kernels
}  // namespace bellows
