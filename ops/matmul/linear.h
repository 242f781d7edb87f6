// Linear layers: y = x w^T + b, optionally with relu.
#pragma once
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"
#include "ops/base/op.h"

namespace bellows {

// Returns y = x w^T + b. x: (..., in). w: (out, in). b: (out) or undefined. y: (..., out). All have
// one float dtype; 16-bit types accumulate in f32, and under amp f32 inputs are cast to 16 bits.
// `slot` caches vendor primitives and tuned algorithms. Throws (exit 2) if shapes or dtypes do not
// fit.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Slot* slot = nullptr);
// relu(linear(x, w, b)). fused: the matrix product applies bias and relu before it writes y, if its
// implementation can. Counted as fuse.bias_act.
Tensor linear_relu(const Tensor& x, const Tensor& w, const Tensor& b, Impl impl,
                   Slot* slot = nullptr);

namespace kernels {
// y (N, out) = x (N, in) w^T + b, and relu of that if `relu`. y is row-major; the others have any
// strides.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& w, const Tensor& b, bool relu,
                               Slot& slot)>
    linear{"linear"};
// dw (out, in) = dy^T x, and db (out) = sum of the rows of dy (N, out). All are row-major except x.
// dw or db may be undefined.
inline constinit Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                             Slot& slot)>
    linear_backward_w{"linear_backward_w"};
// db (out) = sum of the rows of dy (N, out); both are row-major.
inline constinit Kernel<void(const Tensor& dy, const Tensor& db)> sum_rows{"sum_rows"};

// Plain linear_backward_w of every device: a product and a sum.
void multiply_and_sum_rows(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                           Slot& slot);
}  // namespace kernels
}  // namespace bellows
