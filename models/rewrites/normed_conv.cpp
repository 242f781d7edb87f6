#include "models/rewrites/normed_conv.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace bellows {

FoldedConv fold(const Conv2dLayer& conv, const BatchNormLayer& norm) {
  const RunningStatistics& running = norm.running();
  const Tensor s = div(norm.weight(), sqrt(add(running.var, norm.options().eps)));
  const Tensor moved = conv.bias().defined() ? sub(conv.bias(), running.mean) : neg(running.mean);
  return {mul(conv.weight(), reshape(s, {s.numel(), 1, 1, 1})), add(norm.bias(), mul(moved, s))};
}

}  // namespace bellows
