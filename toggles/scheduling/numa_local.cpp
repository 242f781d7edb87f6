#include "plan/toggle.h"

static const bellows::AddToggle numa_local({
    .aliases = {"numactl", "cpunodebind", "membind"},
    .elsewhere = "PyTorch: torch.backends.xeon.run_cpu, numactl; Paddle: numactl",
    .what = "keeps a process on one socket",
    .idea = "A process runs on the cores of one socket and allocates memory there; the ranks of a "
            "machine take the sockets in turn.",
    .claim = "no access crosses to the other socket's memory; no figure in the sources",
    .cost = "a single process uses only one socket's cores",
    .sources = "S4:127",
    .code = "core/device/topology.cpp: bind_to_node",
    .footprint = "cpu.node_bound",
    .same = bellows::Same::bitwise,
    .default_value = "off",
    .fast = "",  // helps only with several ranks on one machine
    .needs = {"numa"},
    .measure = "configs/resnet18.yaml",
    .no_gain = "configs/lenet.yaml",
    .enable = [](bellows::Plan& plan) { plan.threads.numa_local = true; },
});
