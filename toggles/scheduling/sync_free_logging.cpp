#include "plan/toggle.h"

static const bellows::AddToggle sync_free_logging({
    .aliases = {"loss.item"},
    .idea = "Losses stay on the device; the host reads those of a log window at once.",
    .claim = "the host does not wait for the device between two log lines; no figure in the seeds",
    .cost = "a loss that is not finite is noticed at the next log step only",
    .sources = "S1:79 S4:133",
    .footprint = "log.deferred_reads",
    .same = bellows::Same::bitwise,
    .enable = [](bellows::Plan& plan) { plan.log.deferred = true; },
});
