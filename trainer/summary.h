// What a run says at its beginning and at its end.
#pragma once
#include "toggles/toggle.h"
#include "trainer/loop.h"

namespace bellows {

using Lines = std::vector<std::string>;
using Counts = std::map<std::string, int64_t>;

std::string toggle_line(const Config& config);  // those that are on
Lines summary(const Session& session, const Outcome& outcome);

// A warning for each toggle that was on while its footprint stood still between two snapshots of
// trace::counters(); none for one that another toggle, which did run, makes idle.
Lines idle_toggles(const Config& config, const Counts& before, const Counts& after);

}  // namespace bellows
