// Lines that a run prints at its start and at its end.
#pragma once
#include "plan/toggle.h"
#include "trainer/run/loop.h"

namespace bellows {

using Lines = std::vector<std::string>;
using Counts = std::map<std::string, int64_t>;

std::string toggle_line(const Config& config);  // toggles that are on
Lines summary(const Session& session, const Outcome& outcome);
Scalars totals(const Session& session, const Outcome& outcome);  // the same, for metrics.jsonl

// Reports toggles that were on although their footprint did not change between two snapshots of
// trace::counters(): a warning for those that the user set, a line for those that a default or a
// preset switched on. Skips toggles that another toggle, which did run, supersedes.
Lines idle_toggles(const Config& config, const Counts& before, const Counts& after);

}  // namespace bellows
