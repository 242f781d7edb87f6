// Quantization to n levels, as a lesson in two versions: a loop over the levels, as beginners write
// it, and one op over the whole tensor.
#pragma once
#include "ops/base/op.h"

namespace bellows {

// Returns the level of each value, 0 .. n - 1, with the shape and dtype of x. boundaries: (n - 1),
// ascending; ties and NaN are treated as in bucketize(). x: f32 or f64, on a device also bf16 and
// f16. No gradient, since it is piecewise constant. Throws (exit 2) if boundaries are not a list.
//
// composed: fills zeros, then runs two kernels per level, which select its values and add them.
// fused: bucketize, one kernel; counted as ops.vectorized_calls.
Tensor quantile_levels(const Tensor& x, const Tensor& boundaries, Impl impl);

namespace kernels {
// `level` where x is in that level, else 0.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& boundaries, int64_t level)> in_level{
    "in_level"};
}  // namespace kernels
}  // namespace bellows
