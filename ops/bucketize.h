// Bucket index of each value, by search over sorted boundaries (torch.bucketize).
#pragma once
#include "core/tensor/kernel.h"

namespace bellows {

// Returns the number of boundaries below x, so bucket k holds boundaries[k - 1] < x <=
// boundaries[k]: a value equal to a boundary belongs to the lower bucket. NaN belongs to the last
// bucket, B.
// x: any shape, f32 or f64, on a device also bf16 and f16. boundaries: (B), ascending. Returns i64,
// row-major, with the shape of x. No gradient. Throws (exit 2) if boundaries are not a list or, on
// the CPU only, not ascending.
Tensor bucketize(const Tensor& x, const Tensor& boundaries);

// y has `dtype`: any on the CPU; i64 or the dtype of x on a device.
namespace kernels {
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& boundaries, DType dtype)> bucketize{
    "bucketize"};
}  // namespace kernels
}  // namespace bellows
