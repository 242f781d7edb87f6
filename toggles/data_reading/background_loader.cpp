#include "plan/toggle.h"

static const bellows::AddToggle toggle({
    .name = "background_loader",
    .aliases = {"SCHED_IDLE", "nice"},
    .idea = "Loader threads take only the time that compute threads leave: a parallel region that "
            "loses one core to a decoder waits for a scheduler slice at each barrier.",
    .claim = "step time no longer depends on what the workers do; no figure in the seeds",
    .cost = "on a machine that is full with other work the loaders starve",
    .sources = "S0:12,13",
    .footprint = "data.background_threads",
    .same = bellows::Same::bitwise,
    .default_value = "off",  // loaders must not starve beside other programs
    .needs = {"num_workers"},
    .proof = [](bellows::Plan& plan) { plan.data.loader.workers.num_workers = 1; },
    .enable = [](bellows::Plan& plan,
                 const std::string&) { plan.data.loader.workers.background = true; },
});
