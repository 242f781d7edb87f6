// Reads what a run folder records, for `trainer report` and `trainer compare`.
#pragma once
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "core/config/values.h"

namespace bellows {

// Returns an object:
//   kind       "run"
//   folder     as given
//   plan       [[option, value, origin], ...] of plan.yaml, toggles as "toggles.NAME"
//   plan_text  plan.yaml
//   env        env.json without the origins, which `plan` has
//   train, test  rows of metrics.jsonl as columns: {"step": [20, 40], "loss": [2.3, null]}
//   higher_is_better  names of those columns of `test`
//   totals     its last row, written when the run ends; else {}
//   summary    lines that the run printed at its end; else []
//   toggles    [{name, value, count, superseded}, ...]: toggles that were on. count, the change of
//              the footprint, and superseded are there if the run has ended.
// Files of other versions may lack values of env, rows and totals. Throws Error: exit 2 if no run
// is in the folder, 3 if a file of it is damaged.
Json read_run(const Path& folder);
// Replaces the origins of values that were read from plan.yaml, "plan.yaml:12:3", by the "origins"
// in that folder's env.json. Older versions wrote none; the origins then stay.
void restore_origins(Values& values, const Path& folder);

Values options_in(const Json& run);    // options of its plan, without origins
std::string plain(const Json& value);  // as text: a string without quotes, a list as "a, b"

// Returns a column of `rows` (train or test); NaN where a row has no such value.
std::vector<double> column(const Json& rows, const std::string& name);
std::vector<double> finite(std::vector<double> values);        // drops other values
double number_in(const Json& object, const std::string& key);  // NaN if it has none
Names metrics_in(const Json& test);  // names of the columns that are metrics
// Returns the best value of a metric: the largest of an accuracy, else the smallest; NaN if empty.
double best_of(const Json& run, const std::string& metric, const std::vector<double>& values);

}  // namespace bellows
