// How good a model is on the test set.
#pragma once
#include "trainer/session/session.h"

namespace bellows {

inline constexpr int64_t kTop5From = 10;  // so many classes, accuracy_top5 is there

struct Metrics {
  int64_t samples = 0, damaged = 0;     // that count; that were left out
  double loss = 0, accuracy = 0;        // loss: cross-entropy, without training's label_smoothing
  std::optional<double> accuracy_top5;  // from kTop5From on
  double seconds = 0;

  double value(const std::string& metric) const;  // "accuracy", "accuracy_top5", "loss"
};
// Whether a value of that metric improves on another one: a lower loss, a higher accuracy. One that
// is not finite improves on nothing.
bool improves(const std::string& metric, double value, double on);
// "accuracy: 0.9871, accuracy_top5: 0.9998, loss: 0.0403"
std::string text_of(const Metrics& metrics);
// The metrics by name, for metrics.jsonl and TensorBoard.
std::vector<std::pair<std::string, double>> values_of(const Metrics& metrics);

// The caller has plan.kernels in force. Reads the parameters and changes nothing but the module's
// training() and back.
Metrics evaluate(Session& session);

}  // namespace bellows
