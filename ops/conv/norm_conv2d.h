// Kernels between the convolutions of a residual block (ops/conv/residual_block.h). A convolution
// normalizes its input while reading it, so the normalized tensor need not be written, and sums up
// the statistics of its output while writing it.
#pragma once
#include "ops/conv/conv2d.h"
#include "ops/norm/batch_norm.h"

namespace bellows::kernels {

struct NormConv2d {
  Tensor y, statistics;  // statistics: of y, (2, K), means and biased variances
};
// y = conv2d(relu(batch_norm(x))), with the statistics (2, C), weight (C) and bias (C) of x;
// conv2d(x) if these are undefined. Shapes and memory formats as in ops/conv/conv2d.h.
inline constinit Kernel<NormConv2d(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                   const Tensor& bias, double eps, const Tensor& w,
                                   const Conv2dOptions& options, Slot& slot)>
    norm_conv2d{"norm_conv2d"};
// Returns dx. Writes dw, with any dense strides, and dweight and dbias (C).
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                               const Tensor& weight, const Tensor& bias, double eps,
                               const Tensor& w, const Conv2dOptions& options, const Tensor& dw,
                               const Tensor& dweight, const Tensor& dbias, Slot& slot)>
    norm_conv2d_backward{"norm_conv2d_backward"};

// Plain implementations for every device: the kernels of the two ops, one after the other. Backward
// normalizes x again.
NormConv2d norm_conv2d_in_steps(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                const Tensor& bias, double eps, const Tensor& w,
                                const Conv2dOptions& options, Slot& slot);
Tensor norm_conv2d_backward_in_steps(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                                     const Tensor& weight, const Tensor& bias, double eps,
                                     const Tensor& w, const Conv2dOptions& options,
                                     const Tensor& dw, const Tensor& dweight, const Tensor& dbias,
                                     Slot& slot);

}  // namespace bellows::kernels
