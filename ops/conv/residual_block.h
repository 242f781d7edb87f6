// A residual block as one op: convolutions, each followed by a batch_norm, and a shortcut. Saves
// the outputs of the convolutions; backward recomputes the normalized tensors between them.
#pragma once
#include <span>
#include "ops/conv/conv2d.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

// A convolution without bias, w: (K, C, KH, KW), and the batch_norm after it, weight and bias: (K).
struct ConvNorm {
  Tensor w;
  Conv2dOptions conv;
  Tensor weight, bias;
  RunningStatistics running;
  BatchNormOptions norm;
  Slot* slot = nullptr;
};

// y = relu(norm(conv(... relu(norm(conv(x))) ...)) + norm(conv(around))). `layers` has one or more
// convolutions of x. `shortcut` has at most one convolution of `around`; without one, `around` is
// added as it is. In a model `around` is x. Updates the running statistics in training.
//
// On a GPU in f16 with multiples of 8 channels, cuDNN normalizes the inputs inside its
// convolutions. Otherwise fused runs the kernels of the composed ops. Evaluation is always
// composed. Throws (exit 2) if shapes, dtypes or modes do not fit. Counted as fuse.conv_norm.
Tensor residual_block(const Tensor& x, const Tensor& around, std::span<const ConvNorm> layers,
                      std::span<const ConvNorm> shortcut, Impl impl = Impl::fused);

}  // namespace bellows
