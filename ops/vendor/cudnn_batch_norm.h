// A training pass of batch normalisation, and its backward, as graphs of cuDNN.
#pragma once
#include "ops/vendor/cudnn.h"

namespace bellows::cudnn {

// All that a plan depends on. Images are in NHWC.
struct BatchNorm {
  Shape x;
  DType dtype;
  bool relu, residual;  // behind it: y = relu(batch_norm(x) + residual)
  double eps;
  Filter filter;
  bool operator==(const BatchNorm&) const = default;
};

// cuDNN reads channels in pieces of 16 bytes.
inline bool takes_batch_norm(const Tensor& x) {
  if (x.rank() != 4 || x.dtype() == DType::f64 || x.numel() == 0) return false;
  return x.is_contiguous(kNHWC) && x.dim(1) * size_of(x.dtype()) % 16 == 0;
}

// Where a graph has no such tensor it is 0. A bit an element; all that is (1, C, 1, 1) is f32.
struct BatchNormTensors {
  Id x = 0, weight = 0, bias = 0, residual = 0, y = 0, bits = 0, mean = 0, inverse = 0;
  Id dy = 0, dx = 0, dresidual = 0, dw = 0, db = 0;
};
struct BatchNormGraph {
  Graph graph;
  BatchNormTensors tensors = {};  // the same for the same pass
};
BatchNormGraph describe_forward(const BatchNorm& pass);
BatchNormGraph describe_backward(const BatchNorm& pass);

}  // namespace bellows::cudnn
