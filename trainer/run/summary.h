// Lines that a run prints at its start and at its end.
#pragma once
#include "core/base/json.h"
#include "plan/toggle.h"
#include "trainer/run/loop.h"

namespace bellows {

using Lines = std::vector<std::string>;

std::string toggle_line(const Config& config);  // toggles that are on
Lines summary(const Session& session, const Outcome& outcome);
Scalars totals(const Session& session, const Outcome& outcome);  // the same, for metrics.jsonl

// A toggle that was on. `count`: change of its footprint between two snapshots of
// trace::counters().
struct ToggleUse {
  const Toggle* toggle;
  const Value& value;  // of the Config
  int64_t count = 0;
  bool superseded = false;  // by another toggle, which ran
};
std::vector<ToggleUse> toggle_uses(const Config& config, const Counters& before,
                                   const Counters& after);

// Reports toggles that were on and never ran: a warning for those that the user set, a line for
// those that a default or a preset switched on. Skips superseded ones.
Lines idle_toggles(const std::vector<ToggleUse>& uses);

// Returns the content of end.json: {summary, toggles}, as in trainer/state/run_record.h.
Json end_of_run(const Lines& summary, const std::vector<ToggleUse>& uses);

}  // namespace bellows
