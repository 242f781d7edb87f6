// Bucket index of each value, by search over sorted boundaries (torch.bucketize), and quantization
// to n levels, as a lesson in two versions: a loop over the levels, as beginners write it, and one
// op over the whole tensor.
#pragma once
#include "ops/base/op.h"

namespace bellows {

// Returns the number of boundaries below x, so bucket k holds boundaries[k - 1] < x <=
// boundaries[k]: a value equal to a boundary belongs to the lower bucket. NaN belongs to the last
// bucket, B.
// x: any shape, any float dtype. boundaries: (B), ascending, B below 2^24. Returns i64, row-major,
// with the shape of x. No gradient. Throws (exit 2) if boundaries are not a list or, on
// the CPU only, not ascending.
Tensor bucketize(const Tensor& x, const Tensor& boundaries);

// Returns the bucket of each value as its level, in the dtype of x. No gradient, since it is
// piecewise constant. Arguments as of bucketize().
//
// composed: fills zeros, then runs two kernels per level, which select its values and add them.
// fused: bucketize, one kernel; counted as ops.vectorized_calls.
Tensor quantile_levels(const Tensor& x, const Tensor& boundaries, Impl impl);

namespace kernels {
// The bucket of each value, in the dtype and memory order of x.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& boundaries)> bucketize{"bucketize"};
// `level` where x is in that bucket, else 0.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& boundaries, int64_t level)> in_level{
    "in_level"};
}  // namespace kernels
}  // namespace bellows
