// softmax and log_softmax along one axis; f32 or f64, on a device also bf16 and f16. y is
// row-major.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

Tensor softmax(const Tensor& x, int axis = -1);      // exp(x) / sum(exp(x))
Tensor log_softmax(const Tensor& x, int axis = -1);  // x - log(sum(exp(x)))

namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x, int axis)> softmax{"softmax"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& y, int axis)> softmax_backward{
    "softmax_backward"};
inline constinit Kernel<Tensor(const Tensor& x, int axis)> log_softmax{"log_softmax"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& y, int axis)> log_softmax_backward{
    "log_softmax_backward"};
}  // namespace kernels
}  // namespace bellows
