// A tensor with its name, as models, optimizers and files exchange it.
#pragma once
#include <string>
#include <vector>
#include "core/tensor/tensor.h"

namespace bellows {

struct NamedTensor {
  std::string name;  // "conv1.weight"
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

}  // namespace bellows
