#include "models/metrics/metric.h"

namespace bellows {

static Tensor hits(const Tensor& output, const Tensor& labels) {
  return in_top_k(output, labels, 1);
}
static Metric accuracy(const NoOptions&) {
  return {.name = "accuracy", .higher_is_better = true, .sum = hits};
}
static const AddEntry<MakeMetric> accuracy_entry("accuracy",
                                                 "share of samples whose label scores highest",
                                                 accuracy);

}  // namespace bellows
