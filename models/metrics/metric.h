// Metrics of evaluation: an open collection. Each is a file that registers itself:
//   static const AddEntry<MakeMetric> accuracy_entry("accuracy", "...", accuracy);
#pragma once
#include <functional>
#include <span>
#include "core/config/choice.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace bellows {

inline double ratio(std::span<const double> sums) { return sums[0] / sums[1]; }

struct Metric {
  enum class Targets { classes, values, any };

  std::string name;  // in logs, and as the value of options: "accuracy_top5"
  bool higher_is_better;
  // Returns the sums of a batch, f32 (sums_count), on the device. The last one is the count by
  // which the others are divided. Must not wait for the device. output: (..., C), f32. target: as
  // in LossInput (models/losses/loss.h); labels are kLeftOut or in [0, C).
  std::function<Tensor(const Tensor& output, const Tensor& target)> sums;
  int64_t sums_count = 2;
  // Returns the metric from its sums over all batches.
  double (*value)(std::span<const double> sums) = ratio;
  int64_t min_classes = 1;             // data sets with fewer classes leave the metric out
  Targets targets = Targets::classes;  // kind of targets that the metric needs

  // classes: number of classes of the data set; 0: its targets are values.
  bool fits(int64_t classes) const {
    return targets == Targets::any || (targets == Targets::classes) == (classes > 0);
  }
  bool computed_for(int64_t classes) const { return classes == 0 || classes >= min_classes; }
};
using MakeMetric = Metric();

// ---- for metrics

// Returns f32 scalars as the result of Metric::sums.
inline Tensor sums_of(std::initializer_list<Tensor> scalars) {
  std::vector<Tensor> parts;
  for (const Tensor& scalar : scalars) parts.push_back(scalar.view_as({1}));
  return concat(parts, 0);
}
// Returns how many of n rows count, as a scalar. counts: (n, 1), or undefined: all rows count.
inline Tensor number_of(const Tensor& counts, int64_t n, Device device) {
  return counts.defined() ? sum(counts) : full({}, double(n), DType::f32, device);
}

// Class targets, flattened to N positions.
struct Hits {
  Tensor counts;  // (N, 1), f32: 1, or 0 where the target is left out
  Tensor hit;     // (N, 1), f32: 1 where it counts and is among the k highest scores, else 0
};
// A tie counts against the model, and so does a NaN: a broken model must not look good.
Hits hits_of(const Tensor& output, const Tensor& target, int64_t k);

}  // namespace bellows
