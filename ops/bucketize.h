// Which bucket a value falls into, by search over sorted boundaries.
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

// y = number of boundaries below x, so bucket k holds boundaries[k - 1] < x <= boundaries[k]: a
// value on a boundary belongs to the lower bucket. NaN belongs to the last one, len(boundaries).
// x: f32 or f64, on a device also bf16 and f16. boundaries (B), f32 or f64, ascending (a device
// takes that on trust); y is i64 with the shape of x, row-major; no gradient.
Tensor bucketize(const Tensor& x, const Tensor& boundaries);

namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& boundaries, DType dtype)> bucketize{
    "bucketize"};
}  // namespace kernels
}  // namespace bellows
