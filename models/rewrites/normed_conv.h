// Convolutions followed by a batch_norm, whose running mean includes the convolution's bias.
#pragma once
#include "models/module/module.h"

namespace bellows {

struct NormedConv {
  Tensor weight, running_mean;
  bool has_bias = false;
};
std::vector<NormedConv> find_normed_convs(Module& root);

}  // namespace bellows
