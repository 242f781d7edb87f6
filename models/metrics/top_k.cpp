// accuracy and top_k: whether the label is among the highest scores.
#include "core/config/visitor.h"
#include "core/tensor/copy.h"
#include "models/metrics/metric.h"
#include "ops/bucketize.h"
#include "ops/cross_entropy.h"
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

Hits hits_of(const Tensor& output, const Tensor& target, int64_t k) {
  const Tensor scores = reshape(output, {-1, output.dim(-1)});
  auto [index, counts] = class_targets(target, scores.dim(1), DType::f32);
  if (!counts.defined()) counts = full(index.shape(), 1, scores);
  const Tensor own = gather(scores, 1, index);
  // Counts scores >= the label's, including that one. The bound makes > act as >=: no f32 is in
  // [-1e-300, 0).
  const Tensor not_below = sum(above(sub(scores, own), -1e-300), {.axes = {1}, .keepdim = true});
  return {counts, mul(sub(counts, above(not_below, double(k) + 0.5)), counts)};
}

static Metric share_in_top_k(const std::string& name, int64_t k) {
  const auto sums = [k](const Tensor& output, const Tensor& target) {
    const auto [counts, hit] = hits_of(output, target, k);
    return sums_of({sum(hit), sum(counts)});
  };
  return {.name = name, .higher_is_better = true, .sums = sums, .min_classes = k};
}
static Metric accuracy(const NoOptions&) { return share_in_top_k("accuracy", 1); }
static Metric top_k(const TopKOptions& o) { return share_in_top_k(cat("accuracy_top", o.k), o.k); }
static const AddEntry<MakeMetric> accuracy_entry("accuracy", "share of labels that score highest",
                                                 accuracy);
static const AddEntry<MakeMetric> top_k_entry("top_k",
                                              "share of labels that are among the k highest scores",
                                              top_k);

}  // namespace bellows
