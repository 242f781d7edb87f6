// A residual block as one op: convolutions, each followed by a batch normalization, and a shortcut.
// Saves the outputs of the convolutions only; backward recomputes the normalized tensors between
// them. He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
#pragma once
#include <span>
#include "ops/conv/conv2d.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

// A convolution without bias, w: (K, C, KH, KW), and the batch_norm after it.
struct ConvNormLayer {
  Tensor w;
  Conv2dOptions conv;
  NormLayer norm;
  Slot* slot = nullptr;  // the convolution's; may be null
};

// y = relu(norm(conv(... relu(norm(conv(x))) ...)) + norm(conv(around))). `layers` has one or more
// convolutions of x. `shortcut` has at most one convolution of `around`; without one, `around` is
// added as it is. In a model `around` is x. Updates the running statistics in training.
//
// On a GPU in f16 with multiples of 8 channels, cuDNN normalizes the inputs inside its
// convolutions. Otherwise fused runs the kernels of the composed ops. Evaluation is always
// composed. Throws (exit 2) if shapes, dtypes or modes do not fit. Counted as fuse.conv_norm.
Tensor conv_norm(const Tensor& x, const Tensor& around, std::span<const ConvNormLayer> layers,
                 std::span<const ConvNormLayer> shortcut, Impl impl = Impl::fused);

// One convolution of the block. It normalizes its input while reading it, so the normalized tensor
// need not be written, and computes the statistics of its output while writing it.
namespace kernels {
struct ConvNorm {
  Tensor y, statistics;  // statistics: of y, (2, K), means and biased variances
};
// y = conv2d(relu(batch_norm(x))), with the statistics (2, C), weight (C) and bias (C) of x;
// conv2d(x) if these are undefined. Shapes and memory formats as in ops/conv/conv2d.h.
inline constinit Kernel<ConvNorm(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                                 const Tensor& bias, double eps, const Tensor& w,
                                 const Conv2dOptions& options, Slot& slot)>
    conv_norm{"conv_norm"};
// Returns dx. Writes dw, with any dense strides, and dweight and dbias (C).
inline constinit Kernel<Tensor(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                               const Tensor& weight, const Tensor& bias, double eps,
                               const Tensor& w, const Conv2dOptions& options, const Tensor& dw,
                               const Tensor& dweight, const Tensor& dbias, Slot& slot)>
    conv_norm_backward{"conv_norm_backward"};

// The plain implementation on every device: the kernels of the two ops, one after the other.
// Backward normalizes x again.
ConvNorm conv_norm_in_steps(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                            const Tensor& bias, double eps, const Tensor& w,
                            const Conv2dOptions& options, Slot& slot);
Tensor conv_norm_backward_in_steps(const Tensor& dy, const Tensor& x, const Tensor& statistics,
                                   const Tensor& weight, const Tensor& bias, double eps,
                                   const Tensor& w, const Conv2dOptions& options, const Tensor& dw,
                                   const Tensor& dweight, const Tensor& dbias, Slot& slot);
}  // namespace kernels
}  // namespace bellows
