// accuracy and top_k: whether the label is among the highest scores.
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "models/metrics/metric.h"
#include "ops/bucketize.h"
#include "ops/elementwise.h"
#include "ops/gather.h"

namespace bellows {

namespace {
struct TopKOptions {
  int64_t k = 5;
};
void visit(Visitor& v, TopKOptions& o) {
  v("k", o.k, "number of highest scores; not computed for fewer than k classes",
    {.min = 1, .max = 1 << 24});
}
}  // namespace

// 1 where x > bound or x is NaN, else 0.
static Tensor above(const Tensor& x, double bound) {
  return cast(kernels::bucketize(x, full({1}, bound, DType::f64, x.device())), DType::f32);
}

// Returns the number of samples whose label is among the k highest scores, an f32 scalar. A tie
// counts against the model, and so does a NaN: a broken model must not look good.
static Tensor in_top_k(const Tensor& output, const Tensor& labels, int64_t k) {
  const Tensor own = gather(output, 1, contiguous(labels).view_as({labels.dim(0), 1}));
  // Counts scores >= the label's, including that one. The bound makes > act as >=: no f32 is in
  // [-1e-300, 0).
  const Tensor not_below = sum(above(sub(output, own), -1e-300), {.axes = {1}});
  return affine(sum(above(not_below, double(k) + 0.5)), -1, double(labels.dim(0)));
}

static Metric share_in_top_k(const std::string& name, int64_t k) {
  const auto sum = [k](const Tensor& output, const Tensor& labels) {
    return in_top_k(output, labels, k);
  };
  return {.name = name, .higher_is_better = true, .sum = sum, .min_classes = k};
}
static Metric accuracy(const NoOptions&) { return share_in_top_k("accuracy", 1); }
static Metric top_k(const TopKOptions& o) { return share_in_top_k(cat("accuracy_top", o.k), o.k); }
static const AddEntry<MakeMetric> accuracy_entry("accuracy",
                                                 "share of samples whose label scores highest",
                                                 accuracy);
static const AddEntry<MakeMetric> top_k_entry(
    "top_k", "share of samples whose label is among the k highest scores", top_k);

}  // namespace bellows
