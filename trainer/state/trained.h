// A trained model out of a run folder or a checkpoint: what eval and predict work on.
#pragma once
#include <memory>
#include "trainer/session/session.h"

namespace bellows {

// Both have the plan that the model was trained under, and say what had to be passed over (a
// damaged checkpoint) on stdout. The training data need not be there: what counts of it is in the
// checkpoint; only one of an earlier version, which lacks that, has it opened. Throw Error.

// With these `key=value` changes. `data`: another data set, as in  data=NAME, or a folder for one
// of the run's kind; "": the run's own. What normalize takes from a data set stays the training
// set's.
std::unique_ptr<Session> load_to_evaluate(const std::string& file_or_run, const Names& overrides,
                                          const std::string& data);
// Without a test set.
std::unique_ptr<Session> load_to_predict(const std::string& file_or_run);

}  // namespace bellows
