// DatasetInfo: what transforms and models know about a data set.
#pragma once
#include <string>
#include <vector>
#include "core/tensor/shape.h"

namespace bellows {

struct DatasetInfo {
  Shape sample;         // (C, H, W); H and W are 0 if they differ from sample to sample
  int64_t classes = 0;  // labels are in [0, classes)
  std::vector<std::string> names = {};  // of the classes; empty: "0", "1" and so on
  const char* unit = "images";          // unit of `ips`
  std::vector<float> mean, std;         // of the pixels scaled to [0, 1], per channel
};

}  // namespace bellows
