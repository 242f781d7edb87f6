#include "plan/toggle.h"

static const bellows::AddToggle adaptive_threads({
    .aliases = {"OMP_DYNAMIC", "omp_set_dynamic", "dynamic_threads"},
    .idea = "Measures how long its threads wait for a core and uses fewer while that lasts. on: in "
            "kernels whose results do not depend on the thread count. all: in oneDNN's as well.",
    .claim = "less waiting for threads that have no core, on a machine with other work; no figure "
             "in the seeds",
    .cost = "little to gain since regions do not wait for threads that have not begun "
            "(core/device/workers.h); after every pause (up to 2 s, or 64 steps) one step tries "
            "all threads again; all: "
            "results depend on the load, within rounding",
    .footprint = "cpu.wait_readings",
    .same = bellows::Same::bitwise,
    .close_where = "cpu.library_threads",
    .values = {"off", "on", "all"},
    .default_value = "off",
    .fast = "",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          using enum bellows::Adaptive;
          plan.threads.adaptive = value == "all" ? all : on;
        },
});
