// LeNet after a pooling layer: (N, 1, 14, 14) in place of (N, 1, 28, 28), a seventh of the work,
// for runs on tests/cuda_host.
#pragma once
#include "core/config/config.h"
#include "core/config/yaml.h"

namespace bellows {

inline Values pooled_lenet() {
  return parse_yaml(R"(
model:
  name: layers
  layers:
    - max_pool2d
    - {name: conv2d, out: 6, kernel: 5, padding: 2}
    - relu
    - max_pool2d
    - {name: conv2d, out: 16, kernel: 5}
    - relu
    - max_pool2d  # (N, 16, 1, 1)
    - flatten
    - {name: linear, out: 120}
    - relu
    - {name: linear, out: 84}
    - relu
    - {name: linear, out: 10}
)",
                    "pooled_lenet");
}

}  // namespace bellows
