// Reads what a run folder records, for `trainer report` and `trainer compare`.
#pragma once
#include "core/base/file.h"
#include "core/base/json.h"

namespace bellows {

// Returns an object:
//   kind       "run"
//   folder     as given
//   plan       [[option, value, origin], ...] of plan.yaml, toggles as "toggles.NAME"
//   plan_text  plan.yaml
//   env        env.json
//   train, test  rows of metrics.jsonl as columns: {"step": [20, 40], "loss": [2.3, null]}
//   totals     its last row, written when the run ends; else {}
//   summary    lines that the run printed at its end; else []
//   toggles    [{name, value, count, superseded}, ...]: those that were on. count, the change of
//              the footprint, and superseded are there if the run has ended.
// Files of other versions may lack values of env, rows and totals. Throws Error: exit 2 if no run
// is in the folder, 3 if a file of it is damaged.
Json read_run(const Path& folder);

}  // namespace bellows
