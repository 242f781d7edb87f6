#include <cmath>
#include "models/metrics/metric.h"
#include "ops/cross_entropy.h"

namespace bellows {

// Calls the kernel, because the op would count in fuse.loss, the footprint of a toggle.
static Tensor sums_of_losses(const Tensor& output, const Tensor& target) {
  const int64_t classes = output.dim(-1);
  const ClassTargets checked = class_targets(target, classes, DType::f32);
  const Tensor one = full({}, 1, DType::f32, output.device());
  const auto losses =
      kernels::cross_entropy(reshape(output, {-1, classes}), reshape(target, {-1}), one, 0);
  return sums_of({losses.loss, number_of(checked.counts, target.numel(), output.device())});
}
static Metric perplexity(const NoOptions&) {
  return {.name = "perplexity",
          .higher_is_better = false,
          .sums = sums_of_losses,
          .value = [](std::span<const double> sums) { return std::exp(ratio(sums)); }};
}
static const AddEntry<MakeMetric> perplexity_entry("perplexity", "exp of the mean cross-entropy",
                                                   perplexity);

}  // namespace bellows
