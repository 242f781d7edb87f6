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

}  // namespace bellows
