// A batch_norm folded into the conv2d before it, for evaluation.
#pragma once
#include "models/layers/batch_norm.h"
#include "models/layers/conv2d.h"

namespace bellows {

// norm(conv(x)) = conv'(x): w' = w s and b' = bias + (b - mean) s, where s = weight / sqrt(var +
// eps).
struct FoldedConv {
  Tensor w, b;
};
FoldedConv fold(const Conv2dLayer& conv, const BatchNormLayer& norm);

struct FoldedPair {
  std::string conv, norm;  // their paths: "layer1.0.conv1", "layer1.0.bn1"
  FoldedConv folded;
};
// Folds each batch_norm of the tree that follows a conv2d in the same Sequential.
std::vector<FoldedPair> fold_all(const Module& root);

}  // namespace bellows
