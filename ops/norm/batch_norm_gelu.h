// Batch normalization and GELU as one op: neither pass writes or saves the normalized tensor.
// D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.
#pragma once
#include "ops/norm/batch_norm.h"

namespace bellows {

// y = gelu(batch_norm(x)); arguments, errors and effects as in batch_norm (ops/norm/batch_norm.h).
// Saves x and (2, C) statistics; backward computes the normalized values again. Fused, 16-bit
// normalized values are not rounded before GELU. Counted in fuse.norm_act.
Tensor batch_norm_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const RunningStatistics& running, const BatchNormOptions& options,
                       Impl impl = Impl::fused, Slot* slot = nullptr);

// With z = (x - mean) / sqrt(var + eps) * weight + bias. `statistics` and the (C) tensors are those
// of kernels::batch_norm.
namespace kernels {
// y = gelu(z)
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                               const Tensor& bias, double eps)>
    batch_norm_gelu{"batch_norm_gelu"};
// Returns dz = dy * gelu'(z), in the dtype of x. Writes db = sum of dz, dw = sum of dz * normalized
// x.
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                               const Tensor& weight, const Tensor& bias, double eps,
                               const Tensor& dw, const Tensor& db)>
    batch_norm_gelu_backward{"batch_norm_gelu_backward"};
}  // namespace kernels
}  // namespace bellows
