// Convolutions with channels padded to multiples of 8: see ops/matmul/padded.h.
#pragma once
#include "ops/conv/conv2d.h"
#include "ops/matmul/padded.h"

namespace bellows::padded {

// Like the kernels of the same names (ops/conv/conv2d.h), with unpadded arguments and results.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
              Slot& slot);
Tensor conv2d_backward_x(const Tensor& dy, const Tensor& w, const Shape& x,
                         const Conv2dOptions& options, Slot& slot);
void conv2d_backward_w(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db,
                       const Conv2dOptions& options, Slot& slot);

}  // namespace bellows::padded
