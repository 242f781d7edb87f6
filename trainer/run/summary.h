// What a run says at its beginning and at its end.
#pragma once
#include "plan/toggle.h"
#include "trainer/run/loop.h"

namespace bellows {

using Lines = std::vector<std::string>;
using Counts = std::map<std::string, int64_t>;

std::string toggle_line(const Config& config);  // those that are on
Lines summary(const Session& session, const Outcome& outcome);
Scalars totals(const Session& session, const Outcome& outcome);  // the same, for metrics.jsonl

// Warnings for toggles that were on while their footprint stood still between two snapshots of
// trace::counters(): a line each, and one line for all that a default or a preset switched on. None
// for one that another toggle, which did run, makes idle.
Lines idle_toggles(const Config& config, const Counts& before, const Counts& after);

}  // namespace bellows
