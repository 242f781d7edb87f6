// Description of a model's training data: size, shape, statistics and classes. It is stored in
// checkpoints, so that eval and predict need no training set and normalize other data as the
// training data were. Exports describe the model's input with it.
#pragma once
#include "core/base/json.h"
#include "data/images/transform.h"
#include "data/sets/dataset.h"

namespace bellows {

// A training set that is not opened, as described by a trained model's checkpoint.
// Session::train_set then has its size and description, but no samples.
struct TrainingSetInfo {
  DatasetInfo info;
  int64_t samples = 0;
  bool tests = true;  // opens the test set; false: test_set is train_set
};

// Describes a training set, for example:
// {"samples": 60000, "sample": [1, 28, 28], "classes": 10, "mean": [0.1307], "std": [0.3081]}
Json data_card(const Dataset& train_set);
// Returns the number of samples and a CRC-32C of the pixels and labels of at most `most` of them,
// or of all arrays.
std::string fingerprint(const Dataset& data, int64_t most = 256);
// Inverse of data_card. `names`: class names, or empty. Throws Error (exit 4) for values that no
// data set has.
TrainingSetInfo read_data_card(const Json& card, const Names& names);

// Returns the list in the format of data.transforms:
// [{"name": "normalize", "mean": [0.1307], "std": [0.3081]}]
Json to_json(std::vector<TransformChoice> transforms);

}  // namespace bellows
