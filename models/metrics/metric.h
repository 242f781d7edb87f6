// Metrics of evaluation: an open collection. Each is a file that registers itself:
//   static const AddEntry<MakeMetric> accuracy_entry("accuracy", "...", accuracy);
#pragma once
#include <functional>
#include "core/config/choice.h"
#include "core/tensor/tensor.h"

namespace bellows {

struct Metric {
  std::string name;  // in logs, and as the value of options: "accuracy_top5"
  bool higher_is_better;
  // Returns the sum of the metric over the samples of a batch, an f32 scalar on the device. Must
  // not wait for the device. output: (N, C), f32; labels: (N), i64, all in [0, C).
  std::function<Tensor(const Tensor& output, const Tensor& labels)> sum;
  int64_t min_classes = 1;  // it is not computed for fewer
};
using MakeMetric = Metric();

}  // namespace bellows
