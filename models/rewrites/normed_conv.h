// Convolutions followed by a batch_norm, whose running mean includes the bias of the convolution.
#pragma once
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"

namespace bellows {

struct NormedConv {
  std::string conv, norm;  // paths: "layer1.0.conv1", "layer1.0.bn1"
  Conv2dLayer* layer;
  BatchNormLayer* after;
  bool has_bias;
};
// Each conv2d of a model directly followed by a batch_norm. Call before rewrite(), which keeps
// these modules and paths.
std::vector<NormedConv> find_normed_convs(Module& root);

// The batch_norm folded into the conv2d, for evaluation: norm(conv(x)) = conv'(x) with w' = w s and
// b' = bias + (b - mean) s, where s = weight / sqrt(var + eps).
struct FoldedConv {
  Tensor w, b;
};
FoldedConv fold(const Conv2dLayer& conv, const BatchNormLayer& norm);

}  // namespace bellows
