// The three halves of a convolution as graphs of cuDNN.
#pragma once
#include "ops/vendor/cudnn.h"

namespace bellows::cudnn {

enum class Half { forward, backward_x, backward_w };

// All that a plan depends on. Images and weights are in one format.
struct Convolution {
  Half half;
  Shape x, w;
  MemoryFormat format;
  DType dtype;
  bool bias;  // added in the same graph; forward only
  Conv2dOptions options;
  Filter filter;
  bool operator==(const Convolution&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Convolution& convolution);

struct ConvolutionTensors {
  Id first = 0, second = 0;  // x and w, dy and w, or dy and x
  Id bias = 0, result = 0;
};
struct ConvolutionGraph {
  Graph graph;
  ConvolutionTensors tensors = {};  // the same for the same convolution
};
ConvolutionGraph describe(const Convolution& convolution);

}  // namespace bellows::cudnn
