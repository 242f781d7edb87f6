#include "plan/toggle.h"

static const bellows::AddToggle core_pinning({
    .aliases = {"KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND", "taskset"},
    .elsewhere = "PyTorch: OMP_PROC_BIND, GOMP_CPU_AFFINITY; Paddle: the same variables",
    .what = "keeps each thread on its core",
    .idea = "Each thread of the pool stays on one core and its caches. compact: neighboring cores; "
            "spread: over the sockets; list: threads.cores.",
    .claim = "threads stay (cpu_migrations in metrics.jsonl); no figure in the sources",
    .cost = "two runs on one machine use the same cores; a core busy with other work delays all "
            "threads",
    .sources = "S4:128",
    .code = "core/device/topology.cpp: pin_threads",
    .footprint = "cpu.core_pinning",
    .same = bellows::Same::bitwise,
    .values = {"off", "compact", "spread", "list"},
    .default_value = "off",
    .fast = "",  // faster only on an otherwise idle machine
    .measure = "configs/lenet.yaml --value compact",
    .no_gain = "configs/lenet.yaml --value spread",
    .set =
        [](bellows::Plan& plan, const std::string& value) {
          using enum bellows::Pinning;
          plan.threads.pinning = value == "list" ? list : value == "spread" ? spread : compact;
        },
});
