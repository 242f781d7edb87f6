// Evaluates a model on the test set.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bellows {

class Session;

inline constexpr int64_t kTop5From = 10;  // fewest classes for which accuracy_top5 is computed

struct Metrics {
  int64_t samples = 0, damaged = 0;     // counted; left out
  double loss = 0, accuracy = 0;        // loss: cross-entropy without label smoothing
  std::optional<double> accuracy_top5;  // set from kTop5From classes on
  double seconds = 0;

  double value(const std::string& metric) const;  // "accuracy", "accuracy_top5", "loss"
};
// Returns true if `value` of the metric is better than `on`: a lower loss, a higher accuracy. A
// value that is not finite is never better.
bool improves(const std::string& metric, double value, double on);
// For example "accuracy: 0.9871, accuracy_top5: 0.9998, loss: 0.0403".
std::string text_of(const Metrics& metrics);
// Returns the metrics by name, for metrics.jsonl and TensorBoard.
std::vector<std::pair<std::string, double>> values_of(const Metrics& metrics);

// Runs the test set through the model, with the averaged weights if there are any and with all
// views of eval.tta. Afterwards the parameters and training() are as before.
Metrics evaluate(Session& session);

}  // namespace bellows
