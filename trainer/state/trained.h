// Loads a trained model from a run folder or a checkpoint, for eval and predict.
#pragma once
#include <memory>
#include <string>
#include "core/base/words.h"

namespace bellows {

class Session;

// Both functions return a Session with the plan that the model was trained under, and print
// warnings (such as a damaged checkpoint) on stderr. They do not open the training data, because
// the checkpoint describes it. They throw Error.

// Applies `overrides` (key=value) to the plan. `data`: another data set, as in data=NAME, or a
// folder for a data set of the run's type; "": the run's own. The statistics of normalize stay
// those of the training set.
std::unique_ptr<Session> load_to_evaluate(const std::string& file_or_run, const Names& overrides,
                                          const std::string& data);
// Opens no test set.
std::unique_ptr<Session> load_to_predict(const std::string& file_or_run);

}  // namespace bellows
