// accuracy and top_k: whether the label is among the highest scores.
#include "core/config/visitor.h"
#include "models/metrics/metric.h"

namespace bellows {

namespace {
struct TopKOptions {
  int64_t k = 5;
};
void visit(Visitor& v, TopKOptions& o) {
  v("k", o.k, "number of highest scores; not computed for fewer than 2 k classes",
    {.min = 1, .max = 1 << 24});
}
}  // namespace

static Metric accuracy(const NoOptions&) {
  return {.name = "accuracy",
          .higher_is_better = true,
          .sum = [](const Tensor& output, const Tensor& labels) {
            return in_top_k(output, labels, 1);
          }};
}
static Metric top_k(const TopKOptions& o) {
  return {.name = cat("accuracy_top", o.k),
          .higher_is_better = true,
          .sum = [k = o.k](const Tensor& output,
                           const Tensor& labels) { return in_top_k(output, labels, k); },
          .min_classes = 2 * o.k};
}
static const AddEntry<MakeMetric> accuracy_entry("accuracy",
                                                 "share of samples whose label scores highest",
                                                 accuracy);
static const AddEntry<MakeMetric> top_k_entry(
    "top_k", "share of samples whose label is among the k highest scores", top_k);

}  // namespace bellows
