// Kernels of conv_norm as cuDNN graphs: convolutions that normalize their input and sum their
// output per channel. f16 on Ampere and Hopper. NVIDIA's names: SBRCS, ConvBNwgrad,
// DgradDreluBNBwdWeight.
#pragma once
#include "ops/vendor/cudnn.h"
#include "ops/vendor/cudnn_conv2d.h"

namespace bellows::cudnn {

// Key of a plan: everything that it depends on. Images and weights are f16 in NHWC.
struct ConvNormKey {
  Half half;
  Shape x, w;
  bool norm;  // normalize x; false (forward only): just the sums of the output
  Conv2dOptions options;
  Filter filter;
  bool operator==(const ConvNormKey&) const = default;
};

std::ostream& operator<<(std::ostream& out, const ConvNormKey& convolution);

// True for non-empty f16 images with multiples of 8 channels on both sides.
inline bool takes_conv_norm(const Tensor& x, const Tensor& w) {
  return x.dtype() == DType::f16 && w.dim(0) % 8 == 0 && w.dim(1) % 8 == 0 && x.numel() > 0;
}

// Tensors of a graph, 0 if absent. Per-channel tensors are (1, C, 1, 1) in f32, except scale and
// shift of norm(x) = scale * x + shift, which cuDNN accepts only in f16.
struct ConvNormTensors {
  Id x = 0, w = 0, y = 0, scale = 0, shift = 0;  // y: dy in backward
  Id sum = 0, squares = 0;                       // forward: sums over y, (1, K, 1, 1)
  Id dw = 0;                                     // backward_w
  // backward_x: the gradient of norm(x), and dx = scale_dy * dnorm + scale_x * x + rest.
  Id mean = 0, inverse = 0, weight = 0, bias = 0;
  Id dnorm = 0, dweight = 0, dbias = 0, scale_dy = 0, scale_x = 0, rest = 0;
};
using ConvNormGraph = Described<ConvNormTensors>;
ConvNormGraph describe(const ConvNormKey& convolution);

}  // namespace bellows::cudnn
