// LeNet after a pooling layer: (N, 1, 14, 14) in place of (N, 1, 28, 28), a seventh of the work,
// for runs on tests/cuda_host.
#pragma once
#include "core/config/values.h"

namespace bellows {

inline Values pooled_lenet() {
  return {{"model.name", {"layers"}},
          {"model.layers.0.name", {"max_pool2d"}},
          {"model.layers.1.name", {"conv2d"}},
          {"model.layers.1.out", {"6"}},
          {"model.layers.1.kernel", {"5"}},
          {"model.layers.1.padding", {"2"}},
          {"model.layers.2.name", {"relu"}},
          {"model.layers.3.name", {"max_pool2d"}},
          {"model.layers.4.name", {"conv2d"}},
          {"model.layers.4.out", {"16"}},
          {"model.layers.4.kernel", {"5"}},
          {"model.layers.5.name", {"relu"}},
          {"model.layers.6.name", {"max_pool2d"}},  // (N, 16, 1, 1)
          {"model.layers.7.name", {"flatten"}},
          {"model.layers.8.name", {"linear"}},
          {"model.layers.8.out", {"120"}},
          {"model.layers.9.name", {"relu"}},
          {"model.layers.10.name", {"linear"}},
          {"model.layers.10.out", {"84"}},
          {"model.layers.11.name", {"relu"}},
          {"model.layers.12.name", {"linear"}},
          {"model.layers.12.out", {"10"}}};
}

}  // namespace bellows
