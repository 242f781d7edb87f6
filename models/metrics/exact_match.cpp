#include "models/metrics/metric.h"
#include "ops/elementwise.h"

namespace bellows {

// Returns the number of rows that have a one, for a matrix of zeros and ones.
static Tensor rows_with_one(const Tensor& bits) {
  const Tensor ones = sum(bits, {.axes = {1}});
  return sum(minimum(ones, full({}, 1, ones)));
}

// A sample is an index of the first axis. Samples without a target that counts are left out.
static Tensor sums_of_matches(const Tensor& output, const Tensor& target) {
  const auto [counts, hit] = hits_of(output, target, 1);
  const Shape by_sample{target.dim(0), target.numel() / target.dim(0)};
  const Tensor samples = rows_with_one(counts.view_as(by_sample));
  const Tensor wrong = rows_with_one(sub(counts, hit).view_as(by_sample));
  return sums_of({sub(samples, wrong), samples});
}
static Metric exact_match(const NoOptions&) {
  return {.name = "exact_match", .higher_is_better = true, .sums = sums_of_matches};
}
static const AddEntry<MakeMetric> exact_match_entry(
    "exact_match", "share of samples whose labels all score highest", exact_match);

}  // namespace bellows
