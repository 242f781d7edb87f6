// Forward and backward of training batch normalization as cuDNN graphs.
#pragma once
#include "ops/vendor/cudnn.h"

namespace bellows::cudnn {

// Key of a plan: everything that it depends on. Images are NHWC.
struct BatchNorm {
  Shape x;  // (N, C, H, W)
  DType dtype;
  bool relu, residual;  // fused: y = relu(batch_norm(x) + residual); backward: dresidual is wanted
  double eps;
  Filter filter;
  bool backward = false;
  bool operator==(const BatchNorm&) const = default;
};

std::ostream& operator<<(std::ostream& out, const BatchNorm& pass);

// True for non-empty NHWC images, not f64, whose channels fill a multiple of 16 bytes: cuDNN reads
// channels in 16-byte vectors.
inline bool takes_batch_norm(const Tensor& x) {
  if (x.rank() != 4 || x.dtype() == DType::f64 || x.numel() == 0) return false;
  return x.is_contiguous(kNHWC) && x.dim(1) * size_of(x.dtype()) % 16 == 0;
}

// Tensors of a graph, 0 if absent. Images are of the key's shape and dtype, `bits` has one bit per
// element, per-channel tensors are (1, C, 1, 1) in f32.
struct BatchNormTensors {
  Id x = 0, weight = 0, bias = 0, residual = 0, y = 0, bits = 0, mean = 0, inverse = 0;
  Id dy = 0, dx = 0, dresidual = 0, dw = 0, db = 0;
};
using BatchNormGraph = Described<BatchNormTensors>;
BatchNormGraph describe_forward(const BatchNorm& pass);
BatchNormGraph describe_backward(const BatchNorm& pass);

}  // namespace bellows::cudnn
