// y = x w^T + b, and the same through a relu.
#pragma once
#include "core/tensor/kernel.h"
#include "core/tensor/slot.h"
#include "ops/base/op.h"

namespace bellows {

// x (.., in), w (out, in), b (out) or undefined: y (.., out). Of any float type, 16
// bits added up in 32.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, Slot* slot = nullptr);
// relu of that. Fused, the product's kernel adds and clips before it writes y, where it can.
Tensor linear_relu(const Tensor& x, const Tensor& w, const Tensor& b, Impl impl,
                   Slot* slot = nullptr);

// What is done to each element of a product before it is written.
enum class Activation { none, relu };

namespace kernels {
// y (N, out) = x (N, in) w^T + b, activated; all of any strides but y, which is row-major.
inline constinit Kernel<Tensor(const Tensor& x, const Tensor& w, const Tensor& b,
                               Activation activation, Slot& slot)>
    linear{"linear"};
// dw (out, in) = dy^T x, and db (out) = the sum of the rows of dy (N, out). All row-major but x;
// either result may be undefined.
inline constinit Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                             Slot& slot)>
    linear_backward_w{"linear_backward_w"};
// db (out) = the sum of the rows of dy (N, out), both row-major.
inline constinit Kernel<void(const Tensor& dy, const Tensor& db)> sum_rows{"sum_rows"};

// linear_backward_w of a product and a sum: the plain one of every device.
void multiply_and_sum_rows(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                           Slot& slot);
}  // namespace kernels
}  // namespace bellows
