#include "models/losses/loss.h"
#include "models/metrics/metric.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor sums_of_errors(const Tensor& output, const Tensor& target) {
  const auto [each, counts] =
      errors_of("mean_absolute_error", {.output = output, .target = target});
  const Tensor sizes = counts.defined() ? mul(abs(each), counts) : abs(each);
  return sums_of(
      {mul(sum(sizes), 1.0 / double(each.dim(1))), number_of(counts, each.dim(0), each.device())});
}
static Metric mean_absolute_error(const NoOptions&) {
  return {.name = "mean_absolute_error",
          .higher_is_better = false,
          .sums = sums_of_errors,
          .targets = Metric::Targets::any};
}
static const AddEntry<MakeMetric> mean_absolute_error_entry("mean_absolute_error",
                                                            "mean(|output - target|)",
                                                            mean_absolute_error);

}  // namespace bellows
