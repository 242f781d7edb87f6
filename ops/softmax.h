// softmax and log_softmax along the last axis. x: any shape, f32 or f64, on a device also bf16 and
// f16; under amp, 16-bit x is cast to f32. y is row-major, with the shape of x. Throws (exit 2) if
// x has no axis.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

Tensor softmax(const Tensor& x);      // exp(x) / sum(exp(x))
Tensor log_softmax(const Tensor& x);  // x - log(sum(exp(x)))

namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x)> softmax{"softmax"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& y)> softmax_backward{
    "softmax_backward"};
inline constinit Kernel<Tensor(const Tensor& x)> log_softmax{"log_softmax"};
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& y)> log_softmax_backward{
    "log_softmax_backward"};
}  // namespace kernels
}  // namespace bellows
