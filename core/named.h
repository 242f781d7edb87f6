// Tensors with the names they have in PyTorch's state_dict: "conv1.weight".
#pragma once
#include <string>
#include <vector>
#include "core/tensor.h"

namespace bellows {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

}  // namespace bellows
