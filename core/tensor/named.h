// A tensor and what it is called: what models, optimizers and files hand each other.
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
