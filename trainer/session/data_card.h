// What a model has to know of the data that it was trained on. It is kept in checkpoints, so that
// eval and predict need no training set, and written into exports.
#pragma once
#include "core/base/json.h"
#include "data/images/transform.h"
#include "data/sets/dataset.h"

namespace bellows {

// A training set that is not opened, as a trained model describes it. Session::train_set then has
// its size and description, and no samples.
struct TrainedOn {
  DatasetInfo info;
  int64_t samples = 0;
  bool tests = true;  // opens the test set; false: test_set is train_set
};

// {"samples": 60000, "sample": [1, 28, 28], "classes": 10, "mean": [0.1307], "std": [0.3081]}
Json data_card(const Dataset& train_set);
// `names`: of the classes, or none. Throws Error, exit 4, for values that no data set has.
TrainedOn read_data_card(const Json& card, const Names& names);

// [{"name": "normalize", "mean": [0.1307], "std": [0.3081]}]: as data.transforms takes it.
Json to_json(std::vector<TransformChoice> transforms);

}  // namespace bellows
