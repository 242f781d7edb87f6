// Convolutions followed by a batch_norm, whose running mean includes the convolution's bias.
#pragma once
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"

namespace bellows {

struct NormedConv {
  std::string conv, norm;  // their paths: "layer1.0.conv1", "layer1.0.bn1"
  Conv2dLayer* layer;
  BatchNormLayer* after;
  bool has_bias;
};
// Each conv2d directly followed by a batch_norm in one Sequential. Call before rewrite(), which
// keeps these modules and paths.
std::vector<NormedConv> find_normed_convs(Module& root);

}  // namespace bellows
