#include "plan/toggle.h"

static const bellows::AddToggle background_loader({
    .aliases = {"SCHED_IDLE", "nice"},
    .idea = "Loader threads run only when compute threads leave a core idle. Otherwise a parallel "
            "region that loses a core to a decoder waits at each barrier for a time slice.",
    .claim = "the step time no longer depends on the workers; no figure in the seeds",
    .cost = "on a machine busy with other work the loaders starve",
    .sources = "S0:12,13",
    .footprint = "data.background_threads",
    .same = bellows::Same::bitwise,
    .default_value = "off",  // loaders must not starve beside other programs
    .needs = {"num_workers"},
    .enable = [](bellows::Plan& plan) { plan.data.loader.workers.background = true; },
});
