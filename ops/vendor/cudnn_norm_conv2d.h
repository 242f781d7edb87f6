// Convolutions that normalise on their way in and sum up on their way out, as graphs of cuDNN: f16
// on Ampere and Hopper. NVIDIA's names: SBRCS, ConvBNwgrad, DgradDreluBNBwdWeight.
#pragma once
#include "ops/vendor/cudnn.h"
#include "ops/vendor/cudnn_conv2d.h"

namespace bellows::cudnn {

// All that a plan depends on. Images and weights are f16 in NHWC.
struct NormConvolution {
  Half half;
  Shape x, w;
  bool norm;  // of x; false: forward alone, and it sums up only
  Conv2dOptions options;
  Filter filter;
  bool operator==(const NormConvolution&) const = default;
};

inline bool takes_norm_conv2d(const Tensor& x, const Tensor& w) {
  return x.dtype() == DType::f16 && w.dim(0) % 8 == 0 && w.dim(1) % 8 == 0 && x.numel() > 0;
}

// Where a graph has no such tensor it is 0. What is (1, C, 1, 1) is f32 but for scale and shift,
// which turn x into norm(x) = scale * x + shift: cuDNN takes those in f16 only.
struct NormConvolutionTensors {
  Id x = 0, w = 0, y = 0, scale = 0, shift = 0;  // y: dy in backward
  Id sum = 0, squares = 0;                       // forward: of y, (1, K, 1, 1)
  Id dw = 0;                                     // backward_w
  // backward_x: the gradient of norm(x), and what makes dx of it.
  Id mean = 0, inverse = 0, weight = 0, bias = 0;
  Id dnorm = 0, dweight = 0, dbias = 0, scale_dy = 0, scale_x = 0, rest = 0;
};
struct NormConvolutionGraph {
  Graph graph;
  NormConvolutionTensors tensors = {};  // the same for the same convolution
};
NormConvolutionGraph describe(const NormConvolution& convolution);

}  // namespace bellows::cudnn
