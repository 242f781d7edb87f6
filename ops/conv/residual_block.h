// A residual block as one op: convolutions, each with a batch_norm, and a shortcut around them.
// Backward keeps what the convolutions gave; what was normalised in between is computed again.
#pragma once
#include <span>
#include "ops/conv/conv2d.h"
#include "ops/norm/batch_norm.h"

namespace bellows {

// A convolution without bias, w (K, C, KH, KW), and the batch_norm behind it, weight and bias (K).
struct ConvNorm {
  Tensor w;
  Conv2dOptions conv;
  Tensor weight, bias;
  RunningStatistics running;
  BatchNormOptions norm;
  Slot* slot = nullptr;
};

// y = relu(norm(conv(.. relu(norm(conv(x))) ..)) + norm(conv(around))), one or more convolutions of
// x and at most one of `around`, which is added as it is without one; in a network it is x.
// On a GPU cuDNN normalises on the way into its convolutions, in f16 with multiples of 8 channels;
// else the kernels are those of the composed ops. Evaluation is composed.
Tensor residual_block(const Tensor& x, const Tensor& around, std::span<const ConvNorm> layers,
                      std::span<const ConvNorm> shortcut, Impl impl = Impl::fused);

}  // namespace bellows
