// y = x w^T + b.
#pragma once
#include "core/kernel.h"

namespace bellows {

// x (.., in), w (out, in), b (out) or undefined: y (.., out). f32 or f64.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b);

namespace kernels {
// y (N, out) = x (N, in) w^T + b, all of any strides but y, which is row-major.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& w, const Tensor& b)> linear{"linear"};
// db (out) = the sum of the rows of dy (N, out), both row-major.
inline constinit Kernel<void(const Tensor& dy, const Tensor& db)> sum_rows{"sum_rows"};
}  // namespace kernels
}  // namespace bellows
