// A lesson in two versions: values to n levels, by a loop over the levels as one first writes it,
// or by one op over the whole tensor.
#pragma once
#include "ops/base/op.h"

namespace bellows {

// The level of each value, 0 .. n - 1, as a number of x's dtype; n - 1 boundaries, ascending, as
// bucketize() takes them, ties and NaN too. No gradient: the function has steps.
//
// composed: for each level one pass that finds its values and one that adds them in, 2n kernels
// behind the one that fills zeros.
// fused: bucketize, 1 kernel; counted as ops.vectorized_calls.
Tensor quantile_levels(const Tensor& x, const Tensor& boundaries, Impl impl);

namespace kernels {
// `level` where x is in that level, else 0.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& boundaries, int64_t level)> in_level{
    "in_level"};
}  // namespace kernels
}  // namespace bellows
