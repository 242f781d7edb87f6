// Two kernels for what lies between the convolutions of a residual block
// (ops/conv/residual_block.h): the input is normalised on its way into a convolution, and never
// written so; the output is summed up on its way out.
#pragma once
#include "ops/conv/conv2d.h"
#include "ops/norm/batch_norm.h"

namespace bellows::kernels {

struct NormConv2d {
  Tensor y, statistics;  // of y, (2, K)
};
// y = conv2d(relu(batch_norm(x))) by x's statistics, weight and bias (C); where these are
// undefined, conv2d(x).
inline constinit Kernel<NormConv2d(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                   const Tensor& bias, double eps, const Tensor& w,
                                   const Conv2dOptions& options, Slot& slot)>
    norm_conv2d{"norm_conv2d"};
// dx; writes dw like w, and dweight and dbias, (C).
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                               const Tensor& weight, const Tensor& bias, double eps,
                               const Tensor& w, const Conv2dOptions& options, const Tensor& dw,
                               const Tensor& dweight, const Tensor& dbias, Slot& slot)>
    norm_conv2d_backward{"norm_conv2d_backward"};

// The plain ones of every device: kernels of the two ops, one after the other. Backward normalises
// x once more.
NormConv2d norm_conv2d_in_steps(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                const Tensor& bias, double eps, const Tensor& w,
                                const Conv2dOptions& options, Slot& slot);
Tensor norm_conv2d_backward_in_steps(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                                     const Tensor& weight, const Tensor& bias, double eps,
                                     const Tensor& w, const Conv2dOptions& options,
                                     const Tensor& dw, const Tensor& dweight, const Tensor& dbias,
                                     Slot& slot);

}  // namespace bellows::kernels
