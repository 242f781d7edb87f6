// The three passes of a convolution as cuDNN graphs: y, dx and dw.
#pragma once
#include "ops/vendor/cudnn.h"

namespace bellows::cudnn {

enum class Half { forward, backward_x, backward_w };

// Key of a plan: everything that it depends on. Images and weights are in one memory format.
struct Convolution {
  Half half;
  Shape x, w;
  MemoryFormat format;
  DType dtype;
  bool bias;  // the graph adds a bias; forward only
  Conv2dOptions options;
  Filter filter;
  bool operator==(const Convolution&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Convolution& convolution);

struct ConvolutionTensors {
  Id first = 0, second = 0;  // x and w (forward), dy and w (backward_x), dy and x (backward_w)
  Id bias = 0, result = 0;
};
using ConvolutionGraph = Described<ConvolutionTensors>;
ConvolutionGraph describe(const Convolution& convolution);

}  // namespace bellows::cudnn
