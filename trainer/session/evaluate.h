// Evaluates a model on the test set.
#pragma once
#include <functional>
#include "core/base/statistics.h"

namespace bellows {

class Session;
struct Plan;

struct Metrics {
  int64_t samples = 0, damaged = 0;  // samples evaluated, and left out as damaged
  double seconds = 0;
  // Named values: the metrics of eval.metrics, then "loss" without label smoothing, and the terms
  // of a loss that is a sum. Losses are means over the units.
  Scalars values = {};

  double value(const std::string& metric) const;
};

// Returns true if a higher value of an evaluated metric is better, false for losses.
bool higher_is_better(const Plan& plan, const std::string& metric);
// Returns true if `value` is better than `than`. A value that is not finite is never better.
bool improves(bool higher_is_better, double value, double than);
// For example "accuracy: 0.9871, accuracy_top5: 0.9998, loss: 0.0403".
std::string to_text(const Metrics& metrics);

// Runs the test set through the model under session.kernels(), with the averaged weights if there
// are any. Each rank runs its part of the test set, with the buffers of rank 0, and returns the
// metrics of the whole set. The host waits for a device once, at the end. Afterwards the parameters
// and training() are as before. When stop() becomes true, returns after the batch in progress, with
// metrics of no samples. `batches` limits the batches of each rank.
Metrics evaluate(Session& session, const std::function<bool()>& stop = {},
                 int64_t batches = INT64_MAX);

}  // namespace bellows
