#include "core/tensor/copy.h"
#include "models/losses/loss.h"
#include "models/metrics/metric.h"
#include "ops/elementwise.h"

namespace bellows {

// Sums of (output - y)^2, y and y^2 over all values. The sums of a batch are f32, so a mean of y
// far from 0, measured in standard deviations, costs digits.
static Tensor sums_of_squares(const Tensor& output, const Tensor& target) {
  const Errors errors = errors_of("r2", {.output = output, .target = target});
  const Tensor y = cast(target, DType::f32);
  return sums_of(
      {sum(square(errors.each)), sum(y), sum(square(y)), number_of({}, y.numel(), y.device())});
}
static double explained(std::span<const double> sums) {
  const double mean = sums[1] / sums[3];
  return 1 - sums[0] / (sums[2] - sums[1] * mean);
}
static Metric r2(const NoOptions&) {
  return {.name = "r2",
          .higher_is_better = true,
          .sums = sums_of_squares,
          .sums_count = 4,
          .value = explained,
          .targets = Metric::Targets::values};
}
static const AddEntry<MakeMetric> r2_entry(
    "r2", "1 - (sum of squared errors) / (sum of squares about the mean), for values", r2);

}  // namespace bellows
