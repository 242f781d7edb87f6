#include "models/losses/loss.h"
#include "models/metrics/metric.h"
#include "ops/elementwise.h"

namespace bellows {

static Tensor sum_of_errors(const Tensor& output, const Tensor& labels) {
  const Tensor error = one_hot_error("mean_absolute_error", {.output = output, .labels = labels});
  return mul(sum(abs(error)), 1.0 / double(output.dim(1)));
}
static Metric mean_absolute_error(const NoOptions&) {
  return {.name = "mean_absolute_error", .higher_is_better = false, .sum = sum_of_errors};
}
static const AddEntry<MakeMetric> mean_absolute_error_entry("mean_absolute_error",
                                                            "mean(|output - one_hot(label)|)",
                                                            mean_absolute_error);

}  // namespace bellows
